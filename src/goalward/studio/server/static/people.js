// Who belongs to the team: every change is stored at once, and the page shows what is then true.
import { at, call } from "./net.js";

function say(problem) {
  at("problem").textContent = problem;
  at("problem").hidden = false;
}
async function send(path, body, done) {
  try {
    done(await call(path, body));
  } catch (error) {
    say(error.message);
  }
}
const go = (path, body) => send(path, body, () => location.reload());

const hand = (name, role) => send("/api/team/invite", role ? { name, role } : { name }, ({ link }) => {
  at("link").value = link;
  at("says").textContent = `Send it to ${name}, who chooses a passphrase with it. It works once, within a week.`;
  at("copy").textContent = "Copy";
  at("problem").hidden = true;
  at("invited").hidden = false;
  at("link").focus();
  at("link").select();
});

at("invite")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const said = new FormData(event.target);
  hand(said.get("name").trim(), said.get("role"));
});
at("change")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const { old, new: words, again } = Object.fromEntries(new FormData(event.target));
  if (words !== again) say("The two passphrases are not the same.");
  else go("/api/team/passphrase", { old, new: words });
});
at("copy")?.addEventListener("click", async () => {
  at("link").select();
  try { await navigator.clipboard.writeText(at("link").value); } catch { document.execCommand("copy"); }
  at("copy").textContent = "Copied";
});
for (const one of document.querySelectorAll(".person")) {
  const { name } = one.dataset;
  one.querySelector(".role")?.addEventListener("change", (event) => go("/api/team/role", { name, role: event.target.value }));
  one.querySelector(".anew")?.addEventListener("click", () => hand(name));
  one.querySelector(".remove")?.addEventListener("click", () => {
    at("sure-name").textContent = name;
    at("sure").returnValue = "";
    at("sure").onclose = () => { if (at("sure").returnValue === "ok") go("/api/team/remove", { name }); };
    at("sure").showModal();
  });
  for (const button of one.querySelectorAll(".revoke")) {
    button.addEventListener("click", () => go("/api/team/revoke", { id: button.dataset.id }));
  }
}
for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
at("main").dataset.ready = "";
