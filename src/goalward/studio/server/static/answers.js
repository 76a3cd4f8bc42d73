// The answers: a button and a key for each class, and a field to find one among many.
import { at, make } from "./net.js";
import { keysFor } from "./keys.js";

const ACTIONS = ["undo", "skip", "note", "why"];
const MANY = 9; // more classes than that, and one can be found by typing
let classes = [];
let labels = [];
let held = { classes: [], actions: {} };

const kind = at("main").dataset.kind;
const boxes = () => [...at("answers").querySelectorAll("input")];

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
  const key = held.classes[index];
  if (key) {
    pressed.setAttribute("aria-keyshortcuts", key);
    made.append(hint(key));
  }
  const words = make("span", "", String(label));
  words.dir = "auto";
  made.append(words);
  const { colour, text } = classes[index];
  if (colour) made.style.borderInlineStart = `6px solid ${colour}`;
  if (text) {
    made.title = text;
    words.append(make("small", "soft", text));
  }
  if (several) pressed.addEventListener("change", tell);
  else made.addEventListener("click", () => choose(index));
  return made;
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
  at("help-classes").replaceChildren(...known.map(([key, label]) => line(key, label)));
  for (const name of ACTIONS) {
    const key = held.actions[name];
    for (const box of document.querySelectorAll(`[data-key="${name}"]`)) box.textContent = key ?? "";
    const action = at(name === "why" ? "why-button" : name);
    if (key) action.setAttribute("aria-keyshortcuts", key); else action.removeAttribute("aria-keyshortcuts");
  }
}

// Draws them if they are others than before; `choose` is called with the number of a class.
export function drawAnswers(known, choose) {
  const now = known.map(({ label, colour, text }) => ({ label, colour, text }));
  if (JSON.stringify(now) === JSON.stringify(classes)) return;
  classes = now;
  labels = classes.map((one) => one.label);
  held = keysFor(kind === "numbers" ? [] : labels, ACTIONS);
  if (kind !== "numbers") at("answers").replaceChildren(...labels.map((label, index) => button(label, index, choose)));
  at("find").hidden = labels.length <= MANY;
  tell();
  find();
  help();
}

// Marks what the model would say; gives its number, or -1.
export function guessed(row) {
  const index = row?.guess ? labels.indexOf(row.guess[0]) : -1;
  [...at("answers").children].forEach((one, number) => {
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

const fits = () => [...at("answers").children].filter((one) => !one.hidden);

function find() {
  const words = at("find-text").value.trim().toLowerCase();
  [...at("answers").children].forEach((one, index) => { one.hidden = !String(labels[index]).toLowerCase().includes(words); });
}

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
