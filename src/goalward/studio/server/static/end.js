// The end: what was reached, and what to take away. Comes by itself when nothing is left to ask.
import { at } from "./net.js";

const count = (number) => number.toLocaleString("en");
let wished = false;
let nothing = false;

function draw() {
  const open = wished || nothing;
  at("end").hidden = !open;
  at("row").hidden = at("choices").hidden = open;
  at("go-on").hidden = nothing;
  at("finish").hidden = open;
  for (const button of document.querySelectorAll(".needs-row")) button.disabled = open;
}

// Says whether there is nothing to ask; the screen goes away with the first row that comes.
export function ended(now) {
  if (now !== nothing) {
    nothing = now;
    draw();
    if (now) at("end-title").focus({ preventScroll: true });
  }
}

export const finished = () => wished || nothing;

export function reached(now) {
  const left = now.rows - now.labels - now.skipped;
  at("end-title").textContent = now.left === 0 ? (now.labels < now.rows ? "No more rows to ask" : "Every row is answered") : nothing ? "Nothing is left to ask you" : "So far";
  const parts = [`${count(now.labels)} of ${count(now.rows)} rows have a label`];
  if (now.skipped) parts.push(`${count(now.skipped)} were skipped`);
  const words = [`${parts.join(", ")}.`];
  if (now.left && nothing) words.push(`${count(now.left)} ${now.left === 1 ? "row is" : "rows are"} with other people, or ${now.left === 1 ? "waits" : "wait"} for their answers.`);
  at("end-reached").textContent = words.join(" ");
  // With nothing left to ask, only how good it is: no advice.
  const said = now.left && now.model ? now.headline : now.accuracy?.says;
  at("end-headline").textContent = said ?? "";
  at("end-headline").hidden = !said;
  at("stop").hidden = now.left === 0;
  at("end-rest").textContent = !now.model ? `There is no model yet: ${now.waits}, and it can predict the others.`
    : left > 0 ? `The model of these answers predicts the rest: download the table with ${now.kind === "numbers" ? "a number" : "a label and a probability"} for each row that has content.`
      : "The download has your table with its labels.";
  for (const link of document.querySelectorAll("[data-predictions]")) {
    link.toggleAttribute("aria-disabled", !now.model);
    if (now.model) link.href = link.dataset.predictions; else link.removeAttribute("href");
  }
}

at("finish").addEventListener("click", () => { wished = true; draw(); at("end-title").focus(); });
at("go-on").addEventListener("click", () => { wished = false; draw(); at("row").focus(); });
