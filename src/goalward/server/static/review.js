// Reviewing: another label is stored as soon as it is chosen.
import { at, call } from "./net.js";
import { onWho, who } from "./who.js";

const classes = JSON.parse(at("main").dataset.classes);

function say(words, waiting = false) {
  at("saved").textContent = words;
  at("saved").classList.toggle("waiting", waiting);
}

for (const line of document.querySelectorAll(".line")) {
  const row = Number(line.dataset.row);
  const { name } = line.dataset;
  const choice = line.querySelector("select");
  const back = line.querySelector("button");
  const said = new Set(JSON.parse(line.dataset.said));
  let before = choice.value;
  // Only one's own answer can be taken back.
  const offer = () => { back.hidden = !said.has(who()); };
  offer();
  onWho(offer);
  choice.addEventListener("change", async () => {
    const index = Number(choice.value);
    try {
      if (index < 0) await call("/api/skip", { by: who(), row });
      else await call("/api/tell", { by: who(), row, label: classes[index] });
      before = choice.value;
      line.classList.remove("gone");
      line.classList.add("changed");
      said.add(who());
      offer();
      say(index < 0 ? `${name} is skipped.` : `${name} is now ${classes[index]}.`);
    } catch (error) {
      choice.value = before;
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
