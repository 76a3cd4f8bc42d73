// Who is answering: a name kept in this browser.
import { at, call } from "./net.js";

const main = at("main");
const key = `goalward:${main.dataset.study}:by`;
const listeners = [];
let name = main.dataset.by;
try { name = localStorage.getItem(key) || name; } catch { /* no store: the name lasts as long as the page */ }

export const who = () => name;
export const onWho = (listener) => listeners.push(listener);

const dialog = at("who-dialog");
const show = () => { at("who-name").textContent = name; at("who-button").hidden = false; };

function open() {
  at("who-input").value = name;
  at("who-link").hidden = true;
  dialog.showModal();
  at("who-input").select();
}

at("who-button").addEventListener("click", open);
dialog.addEventListener("close", () => {
  const chosen = at("who-input").value.trim();
  if (dialog.returnValue === "ok" && chosen && chosen !== name) {
    name = chosen;
    try { localStorage.setItem(key, name); } catch { /* as above */ }
    show();
    for (const listener of listeners) listener(name);
  }
});
at("who-invite").addEventListener("click", async () => {
  const link = at("who-link");
  try {
    const { path } = await call("/api/invite", {});
    link.textContent = new URL(path, location.href).href;
  } catch (error) { link.textContent = error.message; }
  link.hidden = false;
});

show();
if (new URLSearchParams(location.search).has("who")) {
  history.replaceState(null, "", location.pathname);
  open();
}
