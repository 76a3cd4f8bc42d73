// Labelling: an answer shows the next row at once, which was loaded before; saving goes on behind.
import { at, call } from "./net.js";
import { actionKeys, answerKeys, answered, arrange, buttonAt, clear, drawAnswers, given, guessed, labelAt, toggle } from "./answers.js";
import { edits, guide } from "./classes.js";
import { ended, finished, reached } from "./end.js";
import { keys } from "./keys.js";
import { Outbox } from "./outbox.js";
import { panel } from "./panel.js";
import { notes, preload, show, whole } from "./row.js";
import { Tabs } from "./tabs.js";
import { onWho, who } from "./who.js";
import { explain } from "./why.js";

const STALE = 240000; // rows in hand are asked for again after four idle minutes
const { kind } = at("main").dataset;
let queue = [];
let nothing = false; // the server has no row for this person
let elsewhere = false; // another study is served here now
let contact = Date.now();
let saves = 0;
let outbox = null;
let tabs = null;
let guess = -1; // the class that the model would say, where it is asked to
const boxes = {}; // name -> outbox: one that still sends goes on when its name comes back

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
  ended(!row && nothing && !elsewhere && outbox.size === 0);
  if (at("row").dataset.row !== String(row?.row) || !row) {
    show(row, !row && elsewhere ? "Another study is served here now. Reload the page." : undefined);
    at("row").dataset.row = String(row?.row);
    why(false);
    clear();
    arrange(row);
  }
  for (const button of document.querySelectorAll(".needs-row")) button.disabled = !row || finished();
  // One number after the other, without a way to the field.
  if (row && kind === "numbers" && !finished() && [document.body, at("send")].includes(document.activeElement)) at("number").focus({ preventScroll: true });
  guess = guessed(row);
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
  nothing = rows.length === 0;
  const shown = current();
  const kept = shown && open.find((row) => row.row === shown.row);
  queue = kept ? [shown, ...open.filter((row) => row !== kept)] : open;
  draw();
}

function begin() {
  const mine = `goalward:${at("main").dataset.study}:${who()}`;
  tabs?.close();
  tabs = new Tabs(mine, {
    taken(row) { queue = queue.filter((one) => one.row !== row); draw(); },
    saved() { if (!elsewhere) ask(); },
    others(count) { at("tabs").hidden = count === 0; },
  });
  outbox = boxes[mine] ??= newOutbox(`${mine}:outbox`);
  queue = [];
  draw();
  // What another tab left unsent is known once those that are there have said so.
  tabs.known.then(() => { outbox.adopt(tabs.alive); ask(); outbox.flush(); });
}

function newOutbox(name) {
  return new Outbox(name, {
    saved(item, reply) {
      saves += 1;
      tabs.say("saved", item.body.row);
      if (outbox.size === 0) { say(item.said); complain(); }
      if (reply.next) take(reply.next); else if (current()?.row === reply.row) notes(Object.assign(current(), { notes: reply.notes, n_notes: reply.n_notes }));
    },
    waiting(size, error) {
      say(`Not saved yet: ${size}. Trying again; keep this page open.`, true);
      complain(error.message);
    },
    other: leave,
    refused(item, error) { complain(`The answer to row ${item.body.row} was not taken: ${error.message}`); ask(); },
  });
}

async function ask() {
  const before = saves;
  try {
    const { next } = await call("/api/ask", { by: who(), n: 3 });
    if (saves === before) take(next); else ask(); // what was saved meanwhile may be among them
  } catch (error) {
    if (error.other) return leave(error);
    complain(error.message);
    if (error.passing) setTimeout(ask, 3000);
  }
}

function send(path, more, said) {
  const row = current();
  if (!row || finished()) return;
  queue.shift();
  outbox.add(path, { by: who(), row: row.row, ...more }, said);
  tabs.say("taken", row.row);
  draw();
}

function answer(index) {
  if (!current() || finished()) return; // a row that nobody sees is not answered
  if (kind === "labels") return toggle(index);
  answered(index);
  const button = buttonAt(index);
  button.classList.add("pressed");
  setTimeout(() => button.classList.remove("pressed"), 160);
  send("/api/tell", { label: labelAt(index) }, `Saved: ${labelAt(index)}`);
}

// Sends the labels that are on, or the number.
function save() {
  if (!current() || finished()) return;
  const filled = given();
  if (!filled) return complain("The answer must be a number, such as 3.5. To leave the row out, skip it.");
  complain();
  send("/api/tell", { label: filled.label }, `Saved: ${filled.words}`);
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
    tabs.say("saved", row);
    say(`${next[0]?.name ?? "The row"} is open again.`);
  } catch (error) { if (error.other) leave(error); else complain(`Undo did not work: ${error.message}`); }
}

function why(open = at("why").hidden) {
  at("why").hidden = !open;
  at("why-button").setAttribute("aria-expanded", String(open));
  if (open && current() && !finished()) explain(current());
}

function note() {
  if (!current() || finished()) return;
  at("note-dialog").returnValue = "";
  if (at("note-dialog").dataset.row !== String(current().row)) at("note-text").value = ""; // what was cancelled is there still
  at("note-dialog").dataset.row = current().row;
  at("note-dialog").showModal();
}

const actions = { undo, skip: () => send("/api/skip", {}, "Skipped."), note, why: () => why() };
const others = { "?": () => at("help").showModal(), "/": () => { if (!at("find").hidden) at("find-text").focus(); }, Escape: () => why(false), Enter: () => { if (kind !== "class") save(); else if (guess >= 0) answer(guess); } };
for (const name of ["undo", "skip", "note"]) at(name).addEventListener("click", actions[name]);
at("why-button").addEventListener("click", actions.why);
at("help-button").addEventListener("click", others["?"]);
keys(() => ({ ...others, ...actionKeys(actions), ...answerKeys(answer) }));

at("answer-form").addEventListener("submit", (event) => { event.preventDefault(); save(); });
at("note-cancel").addEventListener("click", () => at("note-dialog").close(""));
at("note-dialog").addEventListener("close", () => {
  const words = at("note-text").value.trim();
  if (at("note-dialog").returnValue !== "ok" || !words) return;
  outbox.add("/api/note", { by: who(), row: Number(at("note-dialog").dataset.row), text: words }, "Note saved.");
  at("note-text").value = "";
});
at("row-whole").addEventListener("click", () => whole(current()).catch((error) => complain(error.message)));
addEventListener("online", () => outbox.retry());
addEventListener("focus", () => { if (Date.now() - contact > STALE) ask(); });
addEventListener("beforeunload", (event) => { if (outbox.size && !(elsewhere && outbox.kept)) event.preventDefault(); });
onWho(begin);

begin();
const news = (now) => {
  drawAnswers(now.classes, answer);
  guide(now);
  reached(now);
  draw();
};
panel(ask, news);
edits(news);
