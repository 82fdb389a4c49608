// The tree of attempts: who was asked to improve whom. Arrow keys walk it, Enter opens the script.
const COLUMN = 176, ROW = 26, FIRST = 90, MORE = 12;

class Lineage {
  constructor(box, page) {
    this.box = box;
    this.page = page;
    this.tree = html('div', { class: 'tree', role: 'tree', tabindex: 0, 'aria-label': 'attempts from parent to child' });
    this.tree.addEventListener('click', (event) => this.click(event));
    this.tree.addEventListener('keydown', (event) => this.key(event));
    this.select = html('select', { 'aria-label': 'run', change: () => this.use(Number(this.select.value)) },
      page.runs.map((run, place) => html('option', { value: place }, nameOf(run, page.runs))));
    const best = html('button', { type: 'button', click: () => this.openBest() }, 'best script');
    const more = html('button', { type: 'button', click: () => { this.fill(200); this.draw(); } }, 'show more');
    const less = html('button', { type: 'button', click: () => { this.build(); this.draw(); } }, 'show less');
    this.words = html('span', { class: 'soft' });
    box.replaceChildren(html('div', { class: 'row' }, this.select, best, more, less, this.words), this.tree);
  }

  use(run) {
    this.run = run;
    this.select.value = String(run);
    this.table = this.page.runs[run];
    this.place = new Map(this.table.id.map((id, place) => [id, place]));
    this.build();
    this.draw();
  }

  // Children of every attempt, the most promising first; place -1 is the base prompt.
  build() {
    const { table } = this, count = table.id.length;
    this.parent = table.parent.map((id, i) => (this.place.get(id) < i ? this.place.get(id) : -1));  // never a circle
    this.kids = new Map([[-1, []]]);
    this.reach = Float64Array.from(table.reward, (value, i) => (table.valid[i] ? Number(value) : -1));
    this.size = new Uint32Array(count).fill(1);
    for (let i = count - 1; i >= 0; i--) {
      const up = this.parent[i];
      if (!this.kids.has(up)) this.kids.set(up, []);
      this.kids.get(up).push(i);
      if (up < 0) continue;
      this.reach[up] = Math.max(this.reach[up], this.reach[i]);
      this.size[up] += this.size[i];
    }
    for (const list of this.kids.values()) list.sort((a, b) => this.reach[b] - this.reach[a] || this.size[b] - this.size[a] || a - b);
    this.line = new Set(this.ancestry(table.best === null ? -1 : this.place.get(table.best)));
    this.shown = new Map();
    this.fill(FIRST);
    if (this.chosen !== undefined && this.page.view.run === this.run) this.reveal(this.chosen);
  }

  ancestry(place) {
    const found = [];
    for (let i = place; i !== undefined && i >= 0; i = this.parent[i]) found.push(i);
    return found;
  }

  // Show so many more attempts: always the one with the best descendant among those whose parent is shown.
  fill(count) {
    const queue = [];
    const offer = (up) => {
      const list = this.kids.get(up) || [], next = this.shown.get(up) || 0;
      if (next < list.length) queue.push([this.reach[list[next]], up]);
    };
    const visit = (up) => {
      offer(up);
      (this.kids.get(up) || []).slice(0, this.shown.get(up) || 0).forEach(visit);
    };
    visit(-1);
    for (; count > 0 && queue.length; count--) {
      let best = 0;
      queue.forEach((item, i) => { if (item[0] > queue[best][0]) best = i; });
      const [[, up]] = queue.splice(best, 1);
      const next = this.shown.get(up) || 0;
      this.shown.set(up, next + 1);
      offer(up);
      offer(this.kids.get(up)[next]);
    }
  }

  // Make an attempt visible, whatever was hidden on the way to it.
  reveal(place) {
    for (let i = place; i >= 0; i = this.parent[i]) {
      const list = this.kids.get(this.parent[i]), at = list.indexOf(i), shown = this.shown.get(this.parent[i]) || 0;
      if (at < shown) continue;
      list.splice(at, 1);
      list.splice(shown, 0, i);
      this.shown.set(this.parent[i], shown + 1);
    }
  }

  layout() {
    const nodes = [];
    let next = 0;
    const place = (i, depth) => {
      const list = (this.kids.get(i) || []).slice(0, this.shown.get(i) || 0);
      const node = { i, depth, y: next, kids: [] };
      nodes.push(node);
      list.forEach((kid, order) => {
        if (order > 0) next += 1;
        node.kids.push(place(kid, depth + 1));
      });
      return node;
    };
    place(-1, 0);
    return nodes;
  }

  draw() {
    const nodes = this.layout(), { table } = this;
    this.nodes = nodes;
    const deep = Math.max(...nodes.map((node) => node.depth)), high = Math.max(...nodes.map((node) => node.y));
    const width = (deep + 1) * COLUMN + 20, height = (high + 1) * ROW + 16;
    const chosen = new Set(this.chosen === undefined ? [] : this.ancestry(this.chosen));
    const edges = svg('g'), dots = svg('g');
    const x = (node) => 16 + node.depth * COLUMN, y = (node) => 20 + node.y * ROW;
    for (const node of nodes) {
      for (const kid of node.kids) {
        const [x0, y0, x1, y1] = [x(node) + 8, y(node), x(kid) - 8, y(kid)];
        const bend = node.y === kid.y ? `H${x1}` : `C${x0 + 14} ${y0} ${x0 + 2} ${y1} ${x0 + 26} ${y1}H${x1}`;
        const start = node.y === kid.y ? Math.min(x0 + this.room(node), x1) : x0;
        const kind = chosen.has(kid.i) ? ' chosen' : this.line.has(kid.i) ? ' best' : '';
        edges.append(svg('path', { class: `edge${kind}`, d: `M${start} ${y0}${bend}` }));
      }
      dots.append(this.node(node, x(node), y(node)));
    }
    this.tree.replaceChildren(svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'presentation' }, edges, dots));
    const seeds = nodes.filter((node) => isSeed(table, node.i)).length, count = table.id.length - table.seeds.length;
    this.words.textContent = `${nodes.length - 1 - seeds} of ${count.toLocaleString('en')} attempts shown; green leads to the best`;
  }

  room(node) {
    return 10 + 7.2 * (this.label(node.i).length + (this.hidden(node.i) ? 3 + String(this.hidden(node.i)).length : 0));
  }

  hidden(i) {
    return (this.kids.get(i) || []).length - (this.shown.get(i) || 0);
  }

  label(i) {
    const { table } = this;
    if (i < 0) return table.seeds.length ? 'start' : 'base prompt';
    if (isSeed(table, i)) return titleOf(table, i).replace(/^(.{19}).{2,}$/, '$1…');
    if (!table.valid[i]) return `${table.statuses[table.status[i]]} · ${seconds(table.seconds[i])}`;
    return `${number(table.score[i] ?? table.reward[i], 4)} · ${seconds(table.seconds[i])}`;
  }

  node(node, x, y) {
    const { table } = this, { i } = node;
    const valid = i < 0 || table.valid[i] || isSeed(table, i);
    const classes = ['node', valid ? '' : 'failed', i >= 0 && table.id[i] === table.best ? 'best' : '',
      i === this.chosen ? 'chosen' : '', i === this.at ? 'at' : ''].filter(Boolean).join(' ');
    const dot = svg('circle', { cx: x, cy: y, r: i < 0 ? 4 : 5.5 });
    if (valid) dot.style.fill = i < 0 || isSeed(table, i) ? 'var(--soft)' : `var(--age${this.shade(i)})`;
    const text = svg('text', { x: x + 11, y: y + 4 }, this.label(i));
    const group = svg('g', {
      class: classes, 'data-place': i, role: 'treeitem', 'aria-level': node.depth + 1,
      'aria-selected': String(i === this.chosen), 'aria-expanded': node.kids.length ? 'true' : this.hidden(i) ? 'false' : null,
    }, svg('rect', { class: 'hit', x: x - 9, y: y - 11, width: COLUMN - 22, height: 22, rx: 5 }), dot, text);
    group.append(svg('title', {}, i < 0 ? (table.seeds.length ? 'seeds, and attempts that had no parent' : 'attempts that began from the base prompt')
      : isSeed(table, i) ? `${titleOf(table, i)}: ${number(table.score[i])} in ${seconds(table.seconds[i])}`
      : `${titleOf(table, i)}, step ${table.step[i]}: ${this.label(i)}`));
    if (this.hidden(i) > 0) {
      group.append(svg('text', { class: 'more', x: x + 19 + 7.2 * this.label(i).length, y: y + 4, 'data-more': i }, `+${this.hidden(i)}`));
    }
    return group;
  }

  // Eight shades by rank: the best eighth of the run's valid attempts is the strongest.
  shade(i) {
    this.ranks ||= new Map();
    if (!this.ranks.has(this.run)) {
      const { table } = this;
      this.ranks.set(this.run, table.reward.filter((_, place) => table.valid[place] && table.id[place] > 0).map(Number).sort((a, b) => a - b));
    }
    const sorted = this.ranks.get(this.run), value = Number(this.table.reward[i]);
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1;
      else high = middle;
    }
    return sorted.length < 2 ? 7 : Math.min(7, Math.floor((8 * low) / (sorted.length - 1)));
  }

  click(event) {
    const more = event.target.closest('[data-more]');
    const group = event.target.closest('[data-place]');
    if (more) return this.unfold(Number(more.dataset.more));
    if (!group) return;
    const place = Number(group.dataset.place);
    this.at = place;
    if (place < 0) return this.unfold(-1);
    this.page.open(this.run, place, false);
  }

  unfold(i) {
    this.shown.set(i, Math.min((this.kids.get(i) || []).length, (this.shown.get(i) || 0) + MORE));
    this.draw();
  }

  key(event) {
    const here = this.nodes.find((node) => node.i === this.at) || this.nodes[0];
    const order = this.nodes, at = order.indexOf(here);
    let next = null;
    if (event.key === 'ArrowUp') next = order[Math.max(0, at - 1)];
    else if (event.key === 'ArrowDown') next = order[Math.min(order.length - 1, at + 1)];
    else if (event.key === 'ArrowLeft') next = order.find((node) => node.kids.includes(here)) || here;
    else if (event.key === 'ArrowRight') {
      if (here.kids.length) [next] = here.kids;
      else if (this.hidden(here.i)) return event.preventDefault(), this.unfold(here.i);
    } else if (event.key === 'Home') [next] = order;
    else if (event.key === 'End') next = order[order.length - 1];
    else if (event.key === '+') return this.unfold(here.i);
    else if ((event.key === 'Enter' || event.key === ' ') && here.i >= 0) {
      event.preventDefault();
      return this.page.open(this.run, here.i, false);
    } else return;
    event.preventDefault();
    if (!next) return;
    this.at = next.i;
    this.draw();
    this.bring(next.i);
  }

  bring(i) {
    const group = one(`[data-place="${i}"]`, this.tree);
    if (!group) return;
    const node = this.nodes.find((candidate) => candidate.i === i);
    const left = node.depth * COLUMN, top = node.y * ROW;
    if (left < this.tree.scrollLeft || left + COLUMN > this.tree.scrollLeft + this.tree.clientWidth) {
      this.tree.scrollLeft = left - COLUMN;
    }
    if (top < this.tree.scrollTop || top + 2 * ROW > this.tree.scrollTop + this.tree.clientHeight) {
      this.tree.scrollTop = top - 4 * ROW;
    }
  }

  choose(place) {
    this.chosen = place;
    this.at = place;
    this.reveal(place);
    this.draw();
    this.bring(place);
  }

  openBest() {
    if (this.table.best !== null) this.page.open(this.run, this.place.get(this.table.best), false);
  }
}

// A race's seeds stand before the attempts and have negative numbers: scripts that were there before the run.
const isSeed = (table, place) => place >= 0 && table.id[place] < 0;
const titleOf = (table, place) => (isSeed(table, place) ? `seed ${table.seeds[-table.id[place] - 1]}` : `attempt ${table.id[place]}`);

function nameOf(run, runs) {
  const parts = [run.arm];
  if (new Set(runs.map((other) => other.task)).size > 1) parts.unshift(run.task);
  if (runs.filter((other) => other.arm === run.arm && other.task === run.task).length > 1) parts.push(`seed ${run.seed}`);
  return parts.join(', ');
}
