// Tabs of one person: they have the same rows in hand, so each tells the others what it answers.
const WAIT = 150; // milliseconds in which a tab of the same browser answers, by far

export const tab = Math.random().toString(36).slice(2);

export class Tabs {
  // `taken` and `saved` are called when another tab answers a row, and when the server has it.
  constructor(name, { taken, saved, others }) {
    Object.assign(this, { alive: new Set(), others });
    this.channel = new BroadcastChannel(name);
    this.channel.onmessage = ({ data }) => {
      if (data.kind === "hello") this.say("here");
      if (data.kind === "hello" || data.kind === "here") this.alive.add(data.tab);
      if (data.kind === "bye") this.alive.delete(data.tab);
      if (data.kind === "taken") taken(data.row);
      if (data.kind === "saved") saved(data.row);
      others(this.alive.size);
    };
    this.bye = () => this.say("bye");
    addEventListener("pagehide", this.bye);
    addEventListener("pageshow", () => this.say("hello"));
    this.say("hello");
    this.known = new Promise((done) => { setTimeout(done, WAIT); });
  }

  say(kind, row) { this.channel.postMessage({ kind, row, tab }); }

  close() {
    this.bye();
    removeEventListener("pagehide", this.bye);
    this.channel.close();
    this.others(0);
  }
}
