// Single keys: which one each answer and action has, and what a key press does.
import { at } from "./net.js";

const store = "goalward:keys";
const box = at("keys-on");
try { box.checked = localStorage.getItem(store) !== "off"; } catch { box.checked = true; }
box.addEventListener("change", () => {
  try { localStorage.setItem(store, box.checked ? "on" : "off"); } catch { /* for this page only */ }
});

// A class of one character is its own key. An action has a letter of its name that no class took; the
// other classes get digits and then letters, in order, as far as they go.
export function keysFor(labels, actions) {
  const texts = labels.map(String);
  const one = (text) => /^[^\s?/\p{Extended_Pictographic}]$|^[0-9]$/u.test(text);
  const plain = (text) => (texts.filter((t) => t.toLowerCase() === text.toLowerCase()).length > 1 ? text : text.toLowerCase());
  const found = texts.map((text) => (one(text) ? plain(text) : null));
  const taken = new Set(found.filter(Boolean).map((key) => key.toLowerCase()));
  const free = (letters) => {
    const key = [...letters].find((letter) => !taken.has(letter)) ?? null;
    if (key) taken.add(key);
    return key;
  };
  const doing = Object.fromEntries(actions.map((name) => [name, free(name)]));
  return { classes: found.map((key) => key ?? free("1234567890abcdefghijklmnopqrstuvwxyz")), actions: doing };
}

// `actions` gives what each key does, now. Keys are off while somebody types, in dialogs, and for those
// who turned them off.
export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (document.querySelector("dialog[open]")) return;
    // Letters have no meaning in a number, nor in a box that is ticked.
    const letter = event.target.id === "number" && /^[a-df-z?]$/i.test(event.key);
    if (!letter && event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    if (event.key === "Enter" && event.target.closest("a, button, summary")) return; // it opens what has the focus
    const now = actions();
    const action = now[event.key] || now[event.key.toLowerCase()];
    if (!action || (!box.checked && event.key !== "Escape")) return;
    event.preventDefault();
    action();
  });
}
