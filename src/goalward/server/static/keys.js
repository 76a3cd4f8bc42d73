// Single keys, off while somebody types, in dialogs, and for those who turned them off.
import { at } from "./net.js";

const key = "goalward:keys";
const box = at("keys-on");
try { box.checked = localStorage.getItem(key) !== "off"; } catch { box.checked = true; }
box.addEventListener("change", () => {
  try { localStorage.setItem(key, box.checked ? "on" : "off"); } catch { /* for this page only */ }
});

export function keys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const action = actions[event.key] || actions[event.key.toLowerCase()];
    if (!action || (!box.checked && event.key !== "Escape")) return;
    event.preventDefault();
    action();
  });
}
