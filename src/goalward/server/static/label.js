// Labelling: an answer shows the next row at once, which was loaded before; saving goes on behind.
import { at, call, make } from "./net.js";
import { keys } from "./keys.js";
import { Outbox } from "./outbox.js";
import { panel } from "./panel.js";
import { notes, preload, show, whole } from "./row.js";
import { onWho, who } from "./who.js";
import { explain } from "./why.js";

const classes = JSON.parse(at("main").dataset.classes);
const STALE = 240000; // rows in hand are asked for again after four idle minutes
let queue = [];
let ended = false;
let elsewhere = false; // another study is served here now
let contact = Date.now();
let outbox = null;

const current = () => queue[0];

function say(words, waiting = false) {
  at("saved").textContent = words;
  at("saved").classList.toggle("waiting", waiting);
}

function complain(words) {
  at("problem").hidden = !words;
  at("problem").textContent = words || "";
}

function draw() {
  const row = current();
  const nothing = elsewhere ? "Another study is served here now. Reload the page."
    : ended && outbox.size === 0 ? "Nothing is left to ask. Thank you!" : undefined;
  if (at("row").dataset.row !== String(row?.row) || !row) {
    show(row, row ? undefined : nothing);
    at("row").dataset.row = String(row?.row);
    why(false);
  }
  for (const button of document.querySelectorAll(".needs-row")) button.disabled = !row;
  queue.slice(1).forEach(preload);
}

// Nothing more is asked, answered or sent here: what was not sent waits in the browser for its own study.
function leave(error) {
  elsewhere = true;
  queue = [];
  complain(error.message);
  say(outbox.size ? `Not sent: ${outbox.size}. ${outbox.kept ? "Kept in this browser." : "This browser keeps nothing: write them down."}` : "", true);
  draw();
}

// What the server says is in hand, less what was answered meanwhile; the row shown stays.
function take(rows) {
  contact = Date.now();
  elsewhere = false;
  const open = rows.filter((row) => !outbox.holds(row.row));
  ended = rows.length === 0;
  const shown = current();
  const kept = shown && open.find((row) => row.row === shown.row);
  queue = kept ? [shown, ...open.filter((row) => row !== kept)] : open;
  draw();
}

function newOutbox() {
  return new Outbox(`goalward:${at("main").dataset.study}:${who()}:outbox`, {
    saved(item, reply) {
      if (outbox.size === 0) { say(item.said); complain(); }
      if (reply.next) take(reply.next); else if (current()?.row === reply.row) { current().notes = reply.notes; notes(reply.notes); }
    },
    waiting(size, error) {
      say(`Not saved yet: ${size}. Trying again; keep this page open.`, true);
      complain(error.message);
    },
    other: leave,
    refused(item, error) { complain(`Row ${item.body.row} was not taken: ${error.message}`); ask(); },
  });
}

async function ask() {
  try { take((await call("/api/ask", { by: who(), n: 3 })).next); } catch (error) {
    if (error.other) return leave(error);
    complain(error.message);
    if (error.passing) setTimeout(ask, 3000);
  }
}

function send(path, more, said) {
  const row = current();
  if (!row) return;
  queue.shift();
  outbox.add(path, { by: who(), row: row.row, ...more }, said);
  draw();
}

function answer(index) {
  if (index >= classes.length || !current()) return;
  const button = at("answers").children[index];
  button.classList.add("pressed");
  setTimeout(() => button.classList.remove("pressed"), 160);
  send("/api/tell", { label: classes[index] }, `Saved: ${classes[index]}`);
}

async function undo() {
  const unsent = outbox.retract();
  if (unsent) {
    // It is still in hand, before the rows that came after it.
    queue = [];
    say("Taken back.");
    return ask();
  }
  await outbox.flush();
  try {
    const { row, next } = await call("/api/undo", { by: who() });
    if (row === null) return say("Nothing to undo.");
    queue = [];
    take(next);
    say(`Row ${row} is open again.`);
  } catch (error) { if (error.other) leave(error); else complain(`Undo did not work: ${error.message}`); }
}

function why(open = at("why").hidden) {
  at("why").hidden = !open;
  at("why-button").setAttribute("aria-expanded", String(open));
  if (open && current()) explain(current());
}

function note() {
  if (!current()) return;
  at("note-dialog").returnValue = "";
  at("note-text").value = "";
  at("note-dialog").dataset.row = current().row;
  at("note-dialog").showModal();
}

classes.forEach((label, index) => {
  const button = make("button", "needs-row");
  button.type = "button";
  if (index < 9) {
    const key = make("kbd", "", String(index + 1));
    key.setAttribute("aria-hidden", "true");
    button.setAttribute("aria-keyshortcuts", String(index + 1));
    button.append(key);
  }
  const words = make("span", "", String(label));
  words.dir = "auto";
  button.append(words);
  button.addEventListener("click", () => answer(index));
  at("answers").append(button);
});

const actions = { u: undo, s: () => send("/api/skip", {}, "Skipped."), n: note, w: () => why(), "?": () => at("help").showModal(), Escape: () => why(false) };
for (const [id, key] of [["undo", "u"], ["skip", "s"], ["note", "n"], ["why-button", "w"], ["help-button", "?"]]) {
  at(id).addEventListener("click", actions[key]);
  at(id).setAttribute("aria-keyshortcuts", key);
  for (const hint of at(id).querySelectorAll("kbd")) hint.setAttribute("aria-hidden", "true");
}
for (const id of ["skip", "note", "why-button"]) at(id).classList.add("needs-row");
const digits = Object.fromEntries(classes.slice(0, 9).map((_, index) => [String(index + 1), () => answer(index)]));
keys({ ...actions, ...digits });

at("note-cancel").addEventListener("click", () => at("note-dialog").close(""));
at("note-dialog").addEventListener("close", () => {
  const words = at("note-text").value.trim();
  if (at("note-dialog").returnValue !== "ok" || !words) return;
  outbox.add("/api/note", { by: who(), row: Number(at("note-dialog").dataset.row), text: words }, "Note saved.");
});
at("row-whole").addEventListener("click", () => whole(current()).catch((error) => complain(error.message)));
addEventListener("online", () => outbox.retry());
addEventListener("focus", () => { if (Date.now() - contact > STALE) ask(); });
addEventListener("beforeunload", (event) => { if (outbox.size && !(elsewhere && outbox.kept)) event.preventDefault(); });
onWho(() => { queue = []; draw(); outbox = newOutbox(); outbox.flush().then(ask); });

outbox = newOutbox();
draw();
panel(ask);
ask();
outbox.flush();
