// One attempt: its numbers, what changed against its parent, its line of descent, script, difference and output.
class AttemptView {
  constructor(box, page) {
    this.box = box;
    this.page = page;
  }

  async show(run, place) {
    const { page } = this, table = page.runs[run];
    const parent = page.lineage.parent[place];
    const asked = (this.asked = (this.asked || 0) + 1);
    const texts = await Promise.all([table.code[place], table.message[place], table.output[place],
      parent < 0 ? -1 : table.code[parent]].map((text) => page.texts.get(text)));
    if (asked !== this.asked) return;  // another one was chosen meanwhile
    const [code, message, output, before] = texts;
    this.box.replaceChildren(
      this.head(table, place),
      this.facts(table, place, parent),
      html('p', { class: 'message soft' }, message || ''),
      this.descent(run, table, place),
      this.tabs(table, place, parent, { code, output, before }),
    );
    this.box.hidden = false;
  }

  head(table, place) {
    const name = titleOf(table, place), pills = [nameOf(table, this.page.runs)];
    if (!isSeed(table, place)) {
      pills.push(`step ${table.step[place]}`, `chain ${table.chain[place]}`, table.statuses[table.status[place]], `${table.tokens[place]} tokens`);
    }
    if (table.flags[place] & 1) pills.push('cores were shared while it ran');
    if (table.flags[place] & 2) pills.push('fits no model');
    return html('div', { class: 'row' }, html('h3', { tabindex: -1 }, name[0].toUpperCase() + name.slice(1)),
      pills.map((pill) => html('span', { class: 'pill' }, pill)));
  }

  facts(table, place, parent) {
    const known = parent >= 0 && table.valid[parent] && table.valid[place];
    const change = (name, better, unit) => {
      const [now, then] = [table[name][place], parent < 0 ? null : table[name][parent]];
      if (!known || typeof now !== 'number' || typeof then !== 'number') return null;
      const step = now - then, good = better * step;
      const words = step === 0 ? 'as its parent' : good > 0 ? (unit ? 'faster' : 'better') : unit ? 'slower' : 'worse';
      const times = unit && step !== 0 && then > 0 ? `, ${number(now / then, 2)} times as long` : '';
      return html('small', { class: step === 0 ? 'soft' : good > 0 ? 'good' : 'bad', 'data-change': name },
        step === 0 ? words : `${signed(step)}${unit} ${words}${times}`);
    };
    const fact = (label, value, ...more) => html('div', {}, html('span', {}, label), html('b', {}, value), more);
    const up = table.up ? 1 : -1;
    return html('div', { class: 'facts' },
      fact('score', number(table.score[place]), change('score', up, '')),
      fact('reward', number(table.reward[place]), change('reward', 1, '')),
      fact('seconds', seconds(table.seconds[place]), change('seconds', -1, ' s')),
      fact('relative reward', number(table.relative[place])),
      fact('parent', parent < 0 ? (isSeed(table, place) ? 'none' : 'base prompt') : titleOf(table, parent),
        parent < 0 ? null : html('small', { class: 'soft' }, table.valid[parent] ? `${number(table.score[parent])} in ${seconds(table.seconds[parent])}` : 'not valid')));
  }

  descent(run, table, place) {
    const line = this.page.lineage.ancestry(place).reverse();
    const shown = line.length > 12 ? [...line.slice(0, 3), null, ...line.slice(-8)] : line;
    return html('div', { class: 'descent', 'aria-label': 'line of descent' }, html('span', { class: 'soft' }, this.page.lineage.label(-1)),
      shown.map((i) => [html('span', { class: 'soft' }, '→'), i === null
        ? html('span', { class: 'soft' }, `${line.length - 11} more`)
        : html('button', { type: 'button', 'aria-pressed': String(i === place), click: () => this.page.open(run, i, false) },
          isSeed(table, i) ? titleOf(table, i) : `${table.id[i]}: ${this.page.lineage.label(i)}`)]));
  }

  tabs(table, place, parent, { code, output, before }) {
    const missing = 'left out to keep this page small; the run log has it';
    const views = {};
    if (parent >= 0) {
      views.difference = () => (code === null || before === null ? html('p', {}, `a script was ${missing}`)
        : diffView(before, code, [`parent: ${titleOf(table, parent)}`, titleOf(table, place)]));
    }
    views.script = () => html('pre', { tabindex: 0 }, code === null ? missing : code || '(the reply held no script)');
    if (output) views.output = () => html('pre', { tabindex: 0 }, output);
    const body = html('div', { class: 'body' });
    const show = (name) => {
      body.replaceChildren(views[name]());
      buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.textContent === name)));
    };
    const buttons = Object.keys(views).map((name) => html('button', {
      type: 'button', click: () => { this.page.view.tab = name; show(name); },
    }, name));
    show(this.page.view.tab in views ? this.page.view.tab : Object.keys(views)[0]);
    return html('div', {}, html('div', { class: 'row' }, buttons), body);
  }
}
