// Reviewing: another label is stored as soon as it is chosen; many that the model is sure of are accepted at once.
import { colourOf, tint } from "./colours.js";
import { at, call } from "./net.js";
import { onWho, who } from "./who.js";

const classes = JSON.parse(at("main").dataset.classes);
const colours = JSON.parse(at("main").dataset.colours);
const accepting = []; // the rows that can be accepted as predicted, and how
const colour = (place) => colourOf({ colour: colours[place] }, place);

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
  const select = fix.querySelector("select");
  const paint = () => { if (select?.value >= 0) tint(fix, colour(Number(select.value))); };
  paint();
  const tick = line.querySelector(".accept input");
  let before = is();
  // Only one's own answer can be taken back.
  const offer = () => { back.hidden = !said.has(who()); };
  offer();
  onWho(offer);
  const done = () => {
    before = is();
    line.classList.remove("gone");
    line.classList.add("changed");
    said.add(who());
    if (tick) { tick.checked = false; tick.disabled = true; }
    paint();
    offer();
    count();
  };
  if (tick) {
    const place = Number(tick.dataset.place);
    tint(tick.closest(".accept"), colour(place));
    tick.addEventListener("change", count);
    accepting.push({ tick, async accept() { await call("/api/tell", { by: who(), row, label: classes[place] }); select.value = String(place); done(); } });
  }
  fix.addEventListener("change", async () => {
    const { skip, label, words } = chosen(inputs);
    try {
      if (skip) await call("/api/skip", { by: who(), row });
      else await call("/api/tell", { by: who(), row, label });
      done();
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

function count() {
  const left = accepting.filter(({ tick }) => tick.checked).length;
  if (!accepting.length) return;
  at("accept").textContent = `Accept ${left} ${left === 1 ? "row" : "rows"}`;
  at("accept").disabled = at("accept-none").disabled = left === 0;
  at("accept-next").hidden = accepting.every(({ tick }) => !tick.disabled);
}

if (accepting.length) {
  count();
  at("accept-none").addEventListener("click", () => { for (const { tick } of accepting) tick.checked = false; count(); });
  at("accept").addEventListener("click", async () => {
    at("accept").disabled = true;
    const wanted = accepting.filter(({ tick }) => tick.checked);
    let stored = 0;
    try {
      for (const one of wanted) { await one.accept(); stored += 1; }
      say(`${stored} ${stored === 1 ? "row was" : "rows were"} accepted.`);
    } catch (error) { say(`${stored} of ${wanted.length} rows were accepted: ${error.message}`, true); }
    count();
  });
}
// When it was, by the clock of who reads it.
for (const time of document.querySelectorAll("time")) {
  time.textContent = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
at("main").dataset.ready = "";
