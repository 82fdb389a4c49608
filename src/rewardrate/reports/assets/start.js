// Bring the page to life; again whenever a watched run has new steps.
class Page {
  constructor() {
    this.view = {};
  }

  async start() {
    this.data = JSON.parse(one('#data').textContent);
    this.runs = [];
    startSwitches(this);
    const box = one('#tree');
    if (box && this.data.lineage) {
      if (typeof DecompressionStream === 'undefined') {
        box.textContent = 'This browser is too old to unpack the tree of attempts.';
      } else {
        this.runs = JSON.parse(new TextDecoder().decode(await unsqueeze(this.data.lineage.runs)));
        this.texts = new Texts(this.data.lineage);
        this.lineage = new Lineage(box, this);
        this.attempt = new AttemptView(one('#attempt'), this);
        this.restore();
      }
    }
    startCharts(this);
    for (const button of all('[data-open]')) {
      const [run, id] = button.dataset.open.split(':').map(Number);
      button.hidden = !this.runs[run];
      button.addEventListener('click', () => this.open(run, this.runs[run].id.indexOf(id), true));
    }
    document.documentElement.dataset.ready = 'yes';
  }

  restore() {
    const wanted = /^#attempt-(\d+)-(\d+)$/.exec(location.hash);
    const { run, id } = this.view.id !== undefined ? this.view : wanted ? { run: Number(wanted[1]), id: Number(wanted[2]) } : {};
    const place = this.runs[run] ? this.runs[run].id.indexOf(id) : -1;
    this.lineage.use(place < 0 ? Math.min(this.view.run || 0, this.runs.length - 1) : run);
    if (place >= 0) this.open(run, place, wanted !== null && this.view.id === undefined);
    else this.lineage.openBest();
  }

  // Show an attempt; `go` scrolls to it.
  async open(run, place, go) {
    if (place < 0) return;
    if (this.lineage.run !== run) this.lineage.use(run);
    this.view.run = run;
    this.view.id = this.runs[run].id[place];
    this.lineage.choose(place);
    await this.attempt.show(run, place);
    if (go) one('#lineage').scrollIntoView();
  }
}

function startTheme() {
  const root = document.documentElement, button = one('#theme');
  const dark = () => (root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches);
  const name = () => { button.textContent = dark() ? 'light' : 'dark'; };
  try { root.dataset.theme = localStorage.getItem('rewardrate-theme') || ''; } catch { /* a page from disk may not remember */ }
  if (!root.dataset.theme) delete root.dataset.theme;
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    try { localStorage.setItem('rewardrate-theme', root.dataset.theme); } catch { /* likewise */ }
    name();
  });
  button.hidden = false;
  name();
}

// A watched run: ask how far it is; when a step is done, take the new page's content in place of the old.
function startLive(page) {
  const words = one('#live');
  if (!words) return;
  const look = async () => {
    let state = null;
    try {
      const answer = await fetch('state', { cache: 'no-store' });
      if (answer.ok) state = await answer.json();
    } catch { /* the watcher has ended */ }
    words.classList.toggle('lost', state === null);
    words.textContent = state ? state.words : 'the watcher has ended';
    if (state && state.stamp !== page.data.stamp) await renew(page);
    setTimeout(look, document.hidden ? 10000 : state ? 1500 : 5000);
  };
  look();
}

async function renew(page) {
  const answer = await fetch('page', { cache: 'no-store' });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const inTree = document.activeElement && document.activeElement.classList.contains('tree');
  const at = scrollY;
  one('#main').replaceWith(document.adoptNode(one('#main', fresh)));
  one('#data').replaceWith(document.adoptNode(one('#data', fresh)));
  await page.start();
  if (inTree) one('.tree')?.focus({ preventScroll: true });
  scrollTo({ top: at, behavior: 'instant' });
}

const page = new Page();
startTheme();
page.start().then(() => startLive(page));
