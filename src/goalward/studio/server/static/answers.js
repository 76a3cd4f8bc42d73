// The answers: a button and a key for each class; of many, those likely or recent first, and a field to find one.
import { colourOf, tint } from "./colours.js";
import { cue } from "./cue.js";
import { at, breakable, make } from "./net.js";
import { keysFor } from "./keys.js";

const ACTIONS = ["undo", "skip", "note", "why"];
const FEW = 12; // more classes than that are many
const FIRST = 9; // of many, how many stand first, with a digit each
const RECENT = 4;
let classes = [];
let labels = [];
let buttons = [];
let counts = []; // answers of each class
let recent = []; // the classes that were answered last
let shown = null;
let held = { classes: [], actions: {} };

const kind = at("main").dataset.kind;
const boxes = () => buttons.map((one) => one.querySelector("input"));
// Classes of one character are found by their own keys, however many they are.
const many = () => labels.length > FEW && labels.some((label) => String(label).length > 1);

export const buttonAt = (index) => buttons[index];

// Several labels: switches one on or off.
export function toggle(index) {
  boxes()[index].click();
}

// What is said of the row now: the labels that hold, or a number; and as words. None where it is no answer.
export function given() {
  if (kind === "labels") {
    const label = labels.filter((_, index) => boxes()[index].checked);
    return { label, words: label.join(", ") || "none of them" };
  }
  const { value } = at("number");
  return value.trim() === "" || !Number.isFinite(Number(value)) ? null : { label: Number(value), words: value };
}

function tell() {
  if (kind === "labels") at("send-words").textContent = `Save: ${given().words}`;
}

// Another row: nothing is said of it yet.
export function clear() {
  if (kind === "labels") for (const one of boxes()) one.checked = false;
  if (kind === "numbers") at("number").value = "";
  tell();
}

export const labelAt = (index) => labels[index];

const hint = (key) => {
  const box = make("kbd", "", key);
  box.setAttribute("aria-hidden", "true");
  return box;
};

function button(label, index, choose) {
  const several = kind === "labels";
  const made = make(several ? "label" : "button", several ? "toggle" : "needs-row");
  const pressed = several ? make("input", "needs-row") : made;
  pressed.type = several ? "checkbox" : "button";
  if (several) made.append(pressed);
  const words = make("span");
  words.append(...breakable(String(label)));
  words.dir = "auto";
  made.append(words);
  tint(made, colourOf(classes[index], index));
  const { text } = classes[index];
  if (text) {
    made.title = text;
    words.append(make("small", "soft", text));
  }
  if (several) pressed.addEventListener("change", tell);
  else made.addEventListener("click", () => choose(index));
  return made;
}

// Writes on each button its key.
function keyed() {
  buttons.forEach((one, index) => {
    const key = held.classes[index];
    const pressed = one.querySelector("input") ?? one;
    one.querySelector("kbd")?.remove();
    if (key) pressed.setAttribute("aria-keyshortcuts", key); else pressed.removeAttribute("aria-keyshortcuts");
    if (key && pressed === one) one.prepend(hint(key)); else if (key) pressed.after(hint(key));
  });
}

// Of many answers, those likely for this row, the recent and the usual stand first; in the order of the classes, so
// that no place tells what the model would say.
export function arrange(row) {
  shown = row;
  if (!many()) return;
  const usual = labels.map((_, k) => k).sort((a, b) => counts[b] - counts[a]);
  const all = [...(row?.likely ?? []), ...recent, ...usual].filter((k) => k < labels.length);
  const first = [...new Set(all)].slice(0, FIRST).sort((a, b) => a - b);
  held.classes = labels.map((_, k) => (first.includes(k) ? String(first.indexOf(k) + 1) : null));
  const focused = document.activeElement;
  at("answers").replaceChildren(...first.map((k) => buttons[k]));
  at("others").replaceChildren(...buttons.filter((_, k) => !first.includes(k)));
  keyed();
  if (buttons.includes(focused)) focused.focus({ preventScroll: true });
}

// Remembers what was answered, to have it at hand for the next rows.
export function answered(index) {
  recent = [index, ...recent.filter((k) => k !== index)].slice(0, RECENT);
}

function help() {
  const line = (key, words) => {
    const row = make("tr");
    const head = make("th");
    head.scope = "row";
    head.append(make("kbd", "", key));
    const said = make("td", "", words);
    said.dir = "auto";
    row.append(head, said);
    return row;
  };
  const known = (kind === "numbers" ? [] : labels).map((label, index) => [held.classes[index], String(label)]).filter(([key]) => key);
  const lines = many() ? [line("1 … 9", "the answers that stand first")] : known.map(([key, label]) => line(key, label));
  at("help-classes").replaceChildren(...lines);
  for (const name of ACTIONS) {
    const key = held.actions[name];
    for (const box of document.querySelectorAll(`[data-key="${name}"]`)) box.textContent = key ?? "";
    const action = at(name === "why" ? "why-button" : name);
    if (key) action.setAttribute("aria-keyshortcuts", key); else action.removeAttribute("aria-keyshortcuts");
  }
}

// Draws them if they are others than before; `choose` is called with the number of a class.
export function drawAnswers(known, choose) {
  counts = known.map((one) => one.labels);
  const now = known.map(({ label, colour, text }) => ({ label, colour, text }));
  if (JSON.stringify(now) === JSON.stringify(classes)) return;
  classes = now;
  labels = classes.map((one) => one.label);
  held = keysFor(kind === "numbers" || many() ? [] : labels, ACTIONS);
  buttons = kind === "numbers" ? [] : labels.map((label, index) => button(label, index, choose));
  at("answers").replaceChildren(...buttons);
  at("others").replaceChildren();
  at("find").hidden = at("others").hidden = !many();
  at("answers").classList.toggle("many", many());
  at("find-text").placeholder = `Find one of ${labels.length} answers`;
  keyed();
  arrange(shown);
  tell();
  find();
  help();
}

// Marks what the model would say; gives its number, or -1.
export function guessed(row) {
  const index = row?.guess ? labels.indexOf(row.guess[0]) : -1;
  buttons.forEach((one, number) => {
    one.classList.toggle("guess", number === index);
    one.querySelector(".guessed")?.remove();
    if (number === index) one.append(make("span", "guessed soft small", `${Math.round(100 * row.guess[1])} % ↵`));
  });
  return index;
}

// What each key of a class does.
export function answerKeys(choose) {
  return Object.fromEntries(held.classes.flatMap((key, index) => (key ? [[key, () => choose(index)]] : [])));
}

// What each key of an action does, given name -> function.
export function actionKeys(actions) {
  return Object.fromEntries(ACTIONS.flatMap((name) => (held.actions[name] ? [[held.actions[name], actions[name]]] : [])));
}

const fits = () => [...at("answers").children, ...at("others").children].filter((one) => !one.hidden);

function find() {
  const words = at("find-text").value.trim().toLowerCase();
  buttons.forEach((one, index) => { one.hidden = !String(labels[index]).toLowerCase().includes(words); });
}

for (const box of ["choices", "others"]) cue(at(box));
at("find-text").addEventListener("input", find);
at("find-text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== "Escape") return;
  event.preventDefault();
  const [first] = fits();
  if (event.key === "Enter" && first && at("find-text").value.trim()) first.click();
  at("find-text").value = "";
  find();
  at("find-text").blur();
});
