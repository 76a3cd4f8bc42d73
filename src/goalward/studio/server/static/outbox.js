// Answers on their way: sent in order, kept in the browser until the server has them on disk. Tabs share
// the place where they are kept, and each sends its own.
import { call } from "./net.js";
import { tab } from "./tabs.js";

export class Outbox {
  constructor(key, { saved, waiting, refused, other }) {
    Object.assign(this, { key, saved, waiting, refused, other, running: false, delay: 1000, kept: true });
    this.items = [];
  }

  // Everybody's.
  get stored() {
    try { return JSON.parse(localStorage.getItem(this.key)) || []; } catch { return []; }
  }

  // Takes over what a tab left behind that is there no more: this one before it was loaded again, say.
  adopt(alive) {
    const left = this.stored.filter((item) => item.tab !== tab && !alive.has(item.tab));
    this.items = [...left.map((item) => ({ ...item, tab })), ...this.items];
    this.keep(left);
  }

  get size() { return this.items.length; }
  holds(row) { return [...this.items, ...this.stored].some((item) => item.body.row === row); }

  add(path, body, said) {
    this.items.push({ path, body, said, tab });
    this.keep();
    return this.flush();
  }

  // Takes back the newest answer if it was never sent; says which.
  retract() {
    if (this.items.length === 0 || (this.running && this.items.length === 1)) return null;
    const item = this.items.pop();
    this.keep();
    return item;
  }

  async flush() {
    if (!this.running && this.items.length) this.running = this.run();
    await this.running;
  }

  async run() {
    while (this.items.length) {
      const [item] = this.items;
      try {
        const reply = await call(item.path, item.body);
        this.drop(item);
        this.delay = 1000;
        this.saved(item, reply);
      } catch (error) {
        if (error.other) {
          // They belong to the study before: kept for it, and not sent.
          this.other(error);
          break;
        }
        if (!error.passing) {
          this.drop(item);
          this.refused(item, error);
          continue;
        }
        this.waiting(this.items.length, error);
        await new Promise((wake) => { this.wake = wake; setTimeout(wake, this.delay); });
        this.delay = Math.min(2 * this.delay, 10000);
      }
    }
    this.running = false;
  }

  retry() { this.delay = 1000; this.wake?.(); }
  drop(item) { this.items = this.items.filter((other) => other !== item); this.keep(); }
  keep(adopted = []) {
    const gone = new Set(adopted.map((item) => JSON.stringify(item)));
    const others = this.stored.filter((item) => item.tab !== tab && !gone.has(JSON.stringify(item)));
    try {
      localStorage.setItem(this.key, JSON.stringify([...others, ...this.items]));
      this.kept = true;
    } catch { this.kept = false; /* a full or forbidden store */ }
  }
}
