// Who is answering: whoever signed in, or a name kept in this browser.
import { at, call } from "./net.js";

const main = at("main");
const key = `goalward:${main.dataset.study}:by`;
const listeners = [];
let name = main.dataset.by;
const dialog = at("who-dialog");
// Where people have accounts there is no dialog, and nobody calls themselves otherwise.
if (dialog) try { name = localStorage.getItem(key) || name; } catch { /* no store: the name lasts as long as the page */ }

export const who = () => name;
export const onWho = (listener) => listeners.push(listener);

const show = () => { at("who-name").textContent = name; at("who-button").hidden = false; };

function open() {
  at("who-input").value = name;
  at("who-invited").hidden = at("who-reach").hidden = true;
  at("who-copy").textContent = "Copy";
  dialog.showModal();
  at("who-input").select();
}

if (dialog) {
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
    try {
      const { path, address, says } = await call("/api/invite", {});
      at("who-link").value = new URL(path, address ?? location.href).href;
      at("who-reach").textContent = says;
      at("who-invited").hidden = false;
      at("who-link").select();
    } catch (error) { at("who-reach").textContent = error.message; }
    at("who-reach").hidden = false;
  });
  at("who-copy").addEventListener("click", async () => {
    at("who-link").select();
    // Browsers give the clipboard to pages of this machine and of https only; the older way asks nobody.
    try { await navigator.clipboard.writeText(at("who-link").value); } catch { document.execCommand("copy"); }
    at("who-copy").textContent = "Copied";
  });

  show();
  if (new URLSearchParams(location.search).has("who")) {
    history.replaceState(null, "", location.pathname);
    open();
  }
}
