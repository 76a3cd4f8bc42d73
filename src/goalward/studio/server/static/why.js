// Why this row: what the model makes of it and by which words; what each label would do, among the details.
import { at, call, make } from "./net.js";

const MOST = 5; // words for a label, and against it
const signed = (number) => (number >= 0 ? "▲ +" : "▼ −") + Math.abs(number).toPrecision(2);
let asked = 0;

function effects(words, list) {
  const box = make("div");
  box.append(make("p", "soft small", words));
  const items = make("ul");
  for (const one of list) {
    const item = make("li");
    item.append(change(one.change));
    const said = make("span", "words", one.preview);
    said.title = one.preview;
    item.append(said, make("span", "soft", String(one.label)));
    items.append(item);
  }
  box.append(items);
  return box;
}

const change = (number) => make("span", number >= 0 ? "up" : "down", signed(number));

function block(one, share, words) {
  const box = make("div", "effect");
  const track = make("span", "track");
  const fill = make("i");
  fill.style.width = `${100 * share}%`;
  track.append(fill);
  box.append(make("h3", "", String(one.label)), track, words);
  return box;
}

const kind = at("main").dataset.kind;
const short = (number) => Number(number.toPrecision(3)).toString();

function likely(one, spread) {
  if (kind === "numbers") {
    const told = make("div", "effect");
    told.append(make("h3", "", String(one.label)), make("span", "", `about ${short(one.probability)}, give or take ${short(spread)}`), make("ul", "pushes"));
    return told;
  }
  const box = block(one, one.probability, make("span", "small", `${Math.round(100 * one.probability)} %`));
  box.append(make("ul", "pushes"));
  return box;
}

function gained(one, most) {
  const box = block(one, Math.abs(one.utility) / most, change(one.utility));
  const lists = make("div", "lists");
  if (one.helps.length) lists.append(effects("helps these rows set aside most", one.helps));
  if (one.hurts.length) lists.append(effects("hurts these most", one.hurts));
  if (lists.childElementCount) box.append(lists);
  return box;
}

// The words for a label and against it, the strongest first: told apart by their sign, and by place.
function push(list, words, k) {
  const least = Math.max(0.005, ...words.map((one) => 0.2 * Math.abs(one.push[k])));
  const by = (sign) => words.filter((one) => sign * one.push[k] > least).sort((a, b) => sign * (b.push[k] - a.push[k])).slice(0, MOST);
  for (const [sign, said] of [[1, "for it"], [-1, "against it"]]) {
    for (const one of by(sign)) {
      const item = make("li", sign > 0 ? "up" : "down", `${sign > 0 ? "▲" : "▼"} ${one.word}`);
      item.title = kind === "numbers" ? `“${one.word}”: ${signed(one.push[k])}` : `“${one.word}” speaks ${said}: ${signed(one.push[k])} on the logit`;
      item.dir = "auto";
      list.append(item);
    }
  }
}

async function spell(row, turn) {
  const words = await call(`/api/words/${row.row}`);
  if (turn !== asked) return; // another row is shown by now
  at("why-legend").hidden = !words.length;
  document.querySelectorAll("#why-labels .pushes").forEach((list, k) => push(list, words, k));
}

export async function explain(row) {
  asked += 1;
  const turn = asked;
  at("why-words").textContent = "Thinking…";
  at("why-labels").replaceChildren();
  at("why-changes").replaceChildren();
  at("why-legend").hidden = at("why-details").hidden = true;
  try {
    const said = await call(`/api/why/${row.row}`);
    if (turn !== asked) return;
    const [first, second] = said.labels.toSorted((a, b) => b.probability - a.probability);
    const unsure = kind === "labels" ? said.labels.some((one) => Math.abs(one.probability - 0.5) < 0.25)
      : first.probability - (second?.probability ?? 0) < 0.5;
    at("why-words").textContent = row.utility === null ? "No model chose this row: it measures, or stands for many others. What the model makes of it:"
      : kind === "numbers" ? "A number here makes others better known. What the model expects:"
      : unsure ? "The model is not sure what this is, so your answer teaches it something:"
      : "The model is fairly sure what this is; it was picked for what it says about other rows:";
    at("why-labels").replaceChildren(...said.labels.map((one) => likely(one, said.spread)));
    if (kind !== "class") { await spell(row, turn); return; } // no goal is watched
    const most = Math.max(1e-12, ...said.labels.map((one) => Math.abs(one.utility)));
    at("why-score").textContent = `${row.utility === null ? "" : `It was asked with a score of ${row.utility.toPrecision(3)} (${said.recipe}). `}What each answer is predicted to do to the goal, per row of it:`;
    at("why-changes").replaceChildren(...said.labels.map((one) => gained(one, most)));
    at("why-details").hidden = false;
    await spell(row, turn);
  } catch (error) { if (turn === asked) at("why-words").textContent = error.message; }
}
