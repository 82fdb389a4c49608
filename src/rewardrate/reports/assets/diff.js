// What changed between two texts, line by line, and inside changed lines word by word.

// Pairs of places that match, in order: longest common subsequence of the middle that differs.
function matches(a, b) {
  let first = 0, endA = a.length, endB = b.length;
  while (first < endA && first < endB && a[first] === b[first]) first++;
  while (endA > first && endB > first && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const found = [];
  for (let i = 0; i < first; i++) found.push([i, i]);
  const n = endA - first, m = endB - first;
  if (n && m && n * m <= 4e6) {
    const wide = m + 1, length = new Uint16Array((n + 1) * wide);
    for (let i = n - 1; i >= 0; i--) {
      for (let j = m - 1; j >= 0; j--) {
        length[i * wide + j] = a[first + i] === b[first + j]
          ? length[(i + 1) * wide + j + 1] + 1
          : Math.max(length[(i + 1) * wide + j], length[i * wide + j + 1]);
      }
    }
    for (let i = 0, j = 0; i < n && j < m;) {
      if (a[first + i] === b[first + j]) found.push([first + i++, first + j++]);
      else if (length[(i + 1) * wide + j] >= length[i * wide + j + 1]) i++;
      else j++;
    }
  }
  for (let i = endA, j = endB; i < a.length; i++, j++) found.push([i, j]);
  return found;
}

// Rows of the two columns: [left place or -1, right place or -1].
function sideBySide(a, b) {
  const rows = [];
  let i = 0, j = 0;
  for (const [x, y] of [...matches(a, b), [a.length, b.length]]) {
    while (i < x || j < y) rows.push([i < x ? i++ : -1, j < y ? j++ : -1]);
    if (x < a.length || y < b.length) rows.push([i++, j++]);
  }
  return rows;
}

// A line with the words that the other one does not have marked; nothing is marked when little is shared.
function marked(text, other) {
  const words = (line) => line.match(/\w+|\s+|[^\w\s]/g) || [];
  const mine = words(text), theirs = words(other);
  const kept = new Set(matches(mine, theirs).map(([place]) => place));
  const shared = mine.filter((word, place) => kept.has(place) && word.trim()).length;
  if (shared < 0.3 * mine.filter((word) => word.trim()).length) return [text];
  const parts = [];
  mine.forEach((word, place) => {
    const last = parts[parts.length - 1], same = kept.has(place);
    if (last && last.same === same) last.text += word;
    else parts.push({ same, text: word });
  });
  return parts.map((part) => (part.same ? part.text : html('mark', {}, part.text)));
}

const CONTEXT = 3;

function diffView(before, after, names) {
  const a = before.split('\n'), b = after.split('\n');
  const rows = sideBySide(a, b);
  const same = rows.map(([i, j]) => i >= 0 && j >= 0 && a[i] === b[j]);
  const near = rows.map((_, place) => !same.slice(Math.max(0, place - CONTEXT), place + CONTEXT + 1).every(Boolean));
  const line = ([i, j], place) => {
    const equal = same[place];
    const left = i < 0 ? [''] : equal || j < 0 ? [a[i]] : marked(a[i], b[j]);
    const right = j < 0 ? [''] : equal || i < 0 ? [b[j]] : marked(b[j], a[i]);
    const kind = (side, void_) => (void_ ? 'void' : equal ? '' : side);
    return html('div', { class: equal ? 'same' : i < 0 || j < 0 ? 'only' : 'both' },
      html('span', { class: `ln ${kind('less', i < 0)}` }, i < 0 ? '' : String(i + 1)),
      html('span', { class: kind('less', i < 0) }, left),
      html('span', { class: `ln ${kind('more', j < 0)}` }, j < 0 ? '' : String(j + 1)),
      html('span', { class: kind('more', j < 0) }, right));
  };
  const view = html('div', { class: 'diff', tabindex: 0, role: 'group', 'aria-label': 'difference to the parent' });
  view.append(html('div', { class: 'head both' }, html('span', { class: 'less' }), html('span', { class: 'less' }, names[0]), html('span', { class: 'more' }), html('span', { class: 'more' }, names[1])));
  if (same.every(Boolean)) view.append(html('div', { class: 'gap' }, 'the two scripts are the same'));
  for (let place = 0; place < rows.length;) {
    if (near[place]) {
      view.append(line(rows[place], place++));
      continue;
    }
    let end = place;
    while (end < rows.length && !near[end]) end++;
    const [from, to] = [place, end];
    const gap = html('div', { class: 'gap' }, html('button', {
      type: 'button', click: () => gap.replaceWith(...rows.slice(from, to).map((row, i) => line(row, from + i))),
    }, `⋯ ${plural(to - from, 'equal line')}: show`));
    view.append(gap);
    place = end;
  }
  return view;
}
