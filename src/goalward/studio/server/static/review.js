// Reviewing: another label is stored as soon as it is chosen.
import { at, call } from "./net.js";
import { onWho, who } from "./who.js";

const classes = JSON.parse(at("main").dataset.classes);

function say(words, waiting = false) {
  at("saved").textContent = words;
  at("saved").classList.toggle("waiting", waiting);
}

// What the fields of a row say: a class, the labels that hold, or a number.
function chosen(inputs) {
  if (at("main").dataset.kind === "labels") {
    const label = classes.filter((_, k) => inputs[k].checked);
    return { label, words: label.join(", ") || "none of them" };
  }
  const { value } = inputs[0];
  if (at("main").dataset.kind === "numbers") return { label: value === "" ? null : Number(value), words: value };
  const index = Number(value);
  return { skip: index < 0, label: classes[index], words: classes[index] };
}

for (const line of document.querySelectorAll(".line")) {
  const row = Number(line.dataset.row);
  const { name } = line.dataset;
  const fix = line.querySelector(".fix");
  const inputs = [...fix.querySelectorAll("select, input")];
  const back = line.querySelector("button");
  const said = new Set(JSON.parse(line.dataset.said));
  const is = () => JSON.stringify(inputs.map((one) => (one.type === "checkbox" ? one.checked : one.value)));
  const set = (values) => inputs.forEach((one, k) => { if (one.type === "checkbox") one.checked = values[k]; else one.value = values[k]; });
  let before = is();
  // Only one's own answer can be taken back.
  const offer = () => { back.hidden = !said.has(who()); };
  offer();
  onWho(offer);
  fix.addEventListener("change", async () => {
    const { skip, label, words } = chosen(inputs);
    try {
      if (skip) await call("/api/skip", { by: who(), row });
      else await call("/api/tell", { by: who(), row, label });
      before = is();
      line.classList.remove("gone");
      line.classList.add("changed");
      said.add(who());
      offer();
      say(skip ? `${name} is skipped.` : `${name} is now ${words}.`);
    } catch (error) {
      set(JSON.parse(before));
      say(`${name} was not changed: ${error.message}`, true);
    }
  });
  back.addEventListener("click", async () => {
    try {
      await call("/api/withdraw", { by: who(), row });
      said.delete(who());
      offer();
      line.classList.add("gone");
      say(`Your answer to ${name} was taken back.`);
    } catch (error) { say(error.message, true); }
  });
}
// When it was, by the clock of who reads it.
for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
at("main").dataset.ready = "";
