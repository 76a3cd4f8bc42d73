// Why this row: what each label would do, and to which dev rows.
import { at, call, make } from "./net.js";

const signed = (number) => (number >= 0 ? "+" : "−") + Math.abs(number).toPrecision(2);

function effects(words, list, className) {
  const box = make("div");
  box.append(make("p", "soft small", words));
  const items = make("ul");
  for (const one of list) {
    const item = make("li");
    item.append(make("span", className, signed(one.change)));
    const said = make("span", "words", one.preview);
    said.title = one.preview;
    item.append(said, make("span", "soft", String(one.label)));
    items.append(item);
  }
  box.append(items);
  return box;
}

function line(one, most) {
  const box = make("div", "effect");
  const track = make("span", "track");
  const fill = make("i");
  fill.style.width = `${(100 * Math.abs(one.utility)) / most}%`;
  track.append(fill);
  const words = `${signed(one.utility)} · ${Math.round(100 * one.probability)} % likely`;
  box.append(make("h3", "", String(one.label)), track, make("span", one.utility >= 0 ? "up small" : "down small", words));
  const lists = make("div", "lists");
  if (one.helps.length) lists.append(effects("helps these dev rows most", one.helps, "up"));
  if (one.hurts.length) lists.append(effects("hurts these most", one.hurts, "down"));
  if (lists.childElementCount) box.append(lists);
  return box;
}

export async function explain(row) {
  at("why-words").textContent = "Thinking…";
  at("why-labels").replaceChildren();
  try {
    const said = await call(`/api/why/${row.row}`);
    const origin = row.utility === null ? "No model chose this row: it measures, or stands for many others"
      : `It was asked with a score of ${row.utility.toPrecision(3)} (${said.recipe})`;
    at("why-words").textContent = `${origin}. What each answer is predicted to do to the goal, per row of it:`;
    const most = Math.max(1e-12, ...said.labels.map((one) => Math.abs(one.utility)));
    at("why-labels").replaceChildren(...said.labels.map((one) => line(one, most)));
  } catch (error) { at("why-words").textContent = error.message; }
}
