// A cursor on every chart: pointer or arrow keys show the values under it; dots lead to their script.
class Cursor {
  constructor(figure, chart, page) {
    this.figure = figure;
    this.chart = chart;
    this.page = page;
    this.svg = one('svg', figure);
    [, , this.width, this.height] = this.svg.getAttribute('viewBox').split(/\s+/).map(Number);
    this.layer = svg('g', { class: 'layer' });
    this.svg.append(this.layer);
    this.readout = html('div', { class: 'readout', hidden: true });
    this.spoken = html('div', { class: 'skip', 'aria-live': 'polite' });
    figure.append(this.readout, this.spoken);
    const [x0, x1, log] = chart.x;
    const scale = log ? Math.log : (value) => value;
    this.toX = (value) => chart.box[0] + ((scale(value) - scale(x0)) / (scale(x1) - scale(x0))) * chart.box[2];
    const [y0, y1, logY] = chart.y;
    const scaleY = logY ? Math.log : (value) => value;
    this.toY = (value) => chart.box[1] + (1 - (scaleY(value) - scaleY(y0)) / (scaleY(y1) - scaleY(y0))) * chart.box[3];
    this.stops = chart.points ? [] : [...new Set(chart.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    this.at = -1;
    this.listen();
  }

  listen() {
    this.svg.addEventListener('pointermove', (event) => this.point(event));
    this.svg.addEventListener('pointerdown', (event) => this.point(event));
    this.svg.addEventListener('pointerleave', () => this.hide());
    this.svg.addEventListener('click', (event) => {
      this.point(event);
      if (this.chart.points && this.dot) this.page.open(this.dot.run, this.dot.place, true);
    });
    this.figure.addEventListener('blur', () => this.hide());
    this.figure.addEventListener('keydown', (event) => {
      if (event.target !== this.figure) return;
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
      if (move) this.step(move);
      else if (event.key === 'Escape') this.hide();
      else if (event.key === 'Enter' && this.dot) this.page.open(this.dot.run, this.dot.place, true);
      else return;
      event.preventDefault();
    });
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    const y = ((event.clientY - box.top) / box.height) * this.height;
    if (this.chart.points) return this.nearest(x, y);
    if (!this.stops.length) return;
    let best = 0;
    this.stops.forEach((stop, i) => {
      if (Math.abs(this.toX(stop) - x) < Math.abs(this.toX(this.stops[best]) - x)) best = i;
    });
    this.at = best;
    this.show();
  }

  step(move) {
    if (this.chart.points) return this.along(move);
    if (!this.stops.length) return;
    this.at = Math.max(0, Math.min(this.stops.length - 1, this.at + move));
    this.show();
  }

  show() {
    const x = this.stops[this.at];
    this.layer.replaceChildren(this.upright(this.toX(x)));
    const rows = [html('b', {}, `${this.chart.xName} ${number(x)}`)];
    for (const line of this.chart.lines) {
      const i = line.x.indexOf(x);
      if (i < 0 || line.y[i] === null) continue;
      const range = line.low && line.low[i] !== null ? ` (${number(line.low[i], 3)} to ${number(line.high[i], 3)})` : '';
      rows.push(this.row(line, `${line.label}: ${number(line.y[i])}${range}`));
      const y = line.at ? line.at[i] : line.y[i];
      const dot = svg('circle', { class: 'dot', cx: this.toX(x), cy: this.toY(y), r: 3.2 });
      dot.style.fill = `var(--${line.color})`;
      this.layer.append(dot);
    }
    this.say(this.toX(x), this.chart.box[1], rows);
  }

  row(line, words) {
    const key = html('i');
    key.style.background = `var(--${line.color})`;
    return html('div', {}, key, words);
  }

  upright(x) {
    const [, top, , height] = this.chart.box;
    return svg('line', { class: 'cursor', x1: x, x2: x, y1: top, y2: top + height });
  }

  say(x, y, rows) {
    this.readout.replaceChildren(...rows);
    this.readout.hidden = false;
    this.spoken.textContent = rows.map((row) => row.textContent).join(', ');
    const zoom = this.svg.clientWidth / this.width || 1;
    const left = this.svg.offsetLeft || one('svg', this.figure).getBoundingClientRect().left - this.figure.getBoundingClientRect().left;
    const wide = this.readout.offsetWidth, room = this.figure.clientWidth;
    let place = left + x * zoom + 14;
    if (place + wide > room - 6) place = left + x * zoom - wide - 14;
    this.readout.style.left = `${Math.max(4, Math.min(place, room - wide - 4))}px`;
    this.readout.style.top = `${8 + y * zoom}px`;
  }

  // ---- dots

  dots() {
    if (this.found) return this.found;
    const { runs, metric } = this.chart.points;
    this.found = [];
    for (const run of runs) {
      const table = this.page.runs[run];
      if (!table) continue;
      table.id.forEach((_, place) => {
        const value = table[metric][place];
        if (table.valid[place] && table.id[place] > 0 && typeof value === 'number') {
          this.found.push({ run, place, x: this.toX(table.seconds[place]), y: this.toY(value) });
        }
      });
    }
    return this.found;
  }

  nearest(x, y) {
    let best = null, least = 14 ** 2;
    for (const dot of this.dots()) {
      const far = (dot.x - x) ** 2 + (dot.y - y) ** 2;
      if (far < least) [best, least] = [dot, far];
    }
    this.mark(best);
  }

  // Arrow keys walk along the front: from the quickest script to the best one.
  along(move) {
    const up = !this.page.runs.length || this.chart.points.metric === 'reward' || this.page.runs[this.chart.points.runs[0]].up;
    const front = [];
    for (const dot of [...this.dots()].sort((a, b) => a.x - b.x || (up ? a.y - b.y : b.y - a.y))) {
      const last = front[front.length - 1];
      if (!last || (up ? dot.y < last.y : dot.y > last.y)) front.push(dot);
    }
    if (!front.length) return;
    this.at = Math.max(0, Math.min(front.length - 1, this.at + move));
    this.mark(front[this.at]);
  }

  mark(dot) {
    this.dot = dot;
    this.svg.style.cursor = dot ? 'pointer' : '';
    if (!dot) return this.hide();
    const table = this.page.runs[dot.run];
    const ring = svg('circle', { cx: dot.x, cy: dot.y, r: 5.5, fill: 'none' });
    ring.style.stroke = 'var(--orange)';
    ring.style.strokeWidth = '2';
    this.layer.replaceChildren(ring);
    this.say(dot.x, Math.min(dot.y, this.chart.box[1] + this.chart.box[3] * 0.5), [
      html('b', {}, `attempt ${table.id[dot.place]}, step ${table.step[dot.place]}`),
      html('div', {}, `score ${number(table.score[dot.place])}, reward ${number(table.reward[dot.place])}`),
      html('div', {}, `${seconds(table.seconds[dot.place])}: click to read it`),
    ]);
  }

  hide() {
    this.layer.replaceChildren();
    this.readout.hidden = true;
    this.spoken.textContent = '';
  }

  // The values of every line as a table, for those who want the numbers or cannot see the picture.
  numbers() {
    const { lines, xName } = this.chart;
    const head = html('tr', {}, html('th', {}, xName), lines.map((line) => html('th', { class: 'n' }, line.label)));
    const rows = this.stops.map((x) => html('tr', {}, html('td', {}, number(x)), lines.map((line) => {
      const i = line.x.indexOf(x);
      return html('td', { class: 'n' }, i < 0 ? '' : number(line.y[i]));
    })));
    return html('div', { class: 'numbers', tabindex: 0 }, html('table', {}, html('thead', {}, head), html('tbody', {}, rows)));
  }
}

function startCharts(page) {
  for (const figure of all('figure.chart[data-chart]')) {
    const chart = page.data.charts[figure.dataset.chart];
    if (!chart || (chart.points && !page.runs.length)) continue;
    const cursor = new Cursor(figure, chart, page);
    figure.tabIndex = 0;
    if (!chart.lines.length) continue;
    let table = null;
    const button = html('button', {
      type: 'button',
      'aria-expanded': 'false',
      click: () => {
        table ||= figure.appendChild(cursor.numbers());
        const open = button.getAttribute('aria-expanded') === 'true';
        button.setAttribute('aria-expanded', String(!open));
        table.hidden = open;
      },
    }, 'numbers');
    one('figcaption', figure).append(' ', button);
  }
}

// Charts that answer the same question in several ways: one is shown, buttons choose.
function startSwitches(page) {
  for (const group of all('[data-switch]')) {
    const figures = all('figure.chart', group);
    if (figures.length < 2) continue;
    const key = group.dataset.switch;
    const show = (name) => {
      page.view[key] = name;
      figures.forEach((figure) => { figure.hidden = figure.dataset.chart !== name; });
      buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.name === name)));
    };
    const buttons = figures.map((figure) => html('button', {
      type: 'button', 'data-name': figure.dataset.chart, click: () => show(figure.dataset.chart),
    }, figure.dataset.choice));
    const bar = html('div', { class: 'row choices', role: 'group', 'aria-label': 'which budget chart' }, buttons);
    one('h2', group.closest('section')).after(bar);
    const kept = page.view[key];
    show(figures.some((figure) => figure.dataset.chart === kept) ? kept : figures[0].dataset.chart);
  }
}
