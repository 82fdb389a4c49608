// Small things that the rest stands on. Text from the record only ever becomes a text node, never markup.
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function make(space, tag, attributes, kids) {
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const kid of kids.flat(Infinity)) if (kid !== null && kid !== undefined && kid !== false) element.append(kid);
  return element;
}
const html = (tag, attributes, ...kids) => make(null, tag, attributes, kids);
const svg = (tag, attributes, ...kids) => make('http://www.w3.org/2000/svg', tag, attributes, kids);

function number(value, digits = 4) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'string') return value;
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}
const seconds = (value) => `${number(value, 3)} s`;
const signed = (value, digits = 3) => (value > 0 ? '+' : value < 0 ? '−' : '±') + number(Math.abs(value), digits);
const plural = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;

// Base64 of zlib -> bytes.
async function unsqueeze(letters) {
  const raw = atob(letters);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Every distinct line once, and each text as spans of lines: see reports/texts.py.
class Texts {
  constructor(data) {
    this.data = data;
  }

  async get(place) {
    if (place < 0) return null;
    this.ready ||= this.unpack();
    await this.ready;
    const lines = [];
    let at = this.starts[place];
    const next = () => {
      let value = 0, shift = 1, byte;
      do {
        byte = this.spans[at++];
        value += (byte & 127) * shift;
        shift *= 128;
      } while (byte > 127);
      return value;
    };
    for (let count = next(); count > 0; count--) {
      const first = next(), length = next();
      for (let i = first; i < first + length; i++) lines.push(this.lines[i]);
    }
    return lines.join('\n');
  }

  async unpack() {
    const [lines, spans] = await Promise.all([unsqueeze(this.data.lines), unsqueeze(this.data.texts)]);
    this.lines = new TextDecoder().decode(lines).split('\n');
    this.spans = spans;
    this.starts = [];
    for (let at = 0; at < spans.length;) {
      this.starts.push(at);
      let left = 1, value = 0, shift = 1, first = true;
      while (left > 0) {
        const byte = spans[at++];
        value += (byte & 127) * shift;
        shift *= 128;
        if (byte > 127) continue;
        left -= 1;
        if (first) left += 2 * value;
        first = false;
        value = 0;
        shift = 1;
      }
    }
  }
}
