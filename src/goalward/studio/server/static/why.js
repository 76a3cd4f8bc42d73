// Why this row, in three sentences: what the model makes of it, why it is asked, by which words. The rest is folded.
import { colourOf, tint } from "./colours.js";
import { at, call, make } from "./net.js";

const MOST = 5; // words for a label, and against it
const LABELS = 8; // that are shown
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
  const fill = tint(make("i"), colourOf(one, one.place)); // as its button has it
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

// The words for a label or against it, the strongest first.
function strongest(words, k, sign) {
  const least = Math.max(0.005, ...words.map((one) => 0.2 * Math.abs(one.push[k])));
  return words.filter((one) => sign * one.push[k] > least).sort((a, b) => sign * (b.push[k] - a.push[k])).slice(0, MOST);
}

// Told apart by their sign, and by place.
function push(list, words, k) {
  for (const [sign, said] of [[1, "for it"], [-1, "against it"]]) {
    for (const one of strongest(words, k, sign)) {
      const item = make("li", sign > 0 ? "up" : "down", `${sign > 0 ? "▲" : "▼"} ${one.word}`);
      item.title = kind === "numbers" ? `“${one.word}”: ${signed(one.push[k])}` : `“${one.word}” speaks ${said}: ${signed(one.push[k])} on the logit`;
      item.dir = "auto";
      list.append(item);
    }
  }
}

const quoted = (words) => words.map((one) => `“${one.word}”`).join(", ");

// The words that decide, in a sentence: for what is likeliest, and against it.
function decisive(words, label, k) {
  const [up, down] = [1, -1].map((sign) => strongest(words, k, sign).slice(0, 3));
  if (kind === "numbers") {
    const parts = [up.length && `${quoted(up)} makes it larger`, down.length && `${quoted(down)} smaller`].filter(Boolean);
    return parts.length ? `${parts.join(", ")}.` : "";
  }
  if (!up.length) return down.length ? `${quoted(down)} speaks against “${label}”.` : "";
  return `${quoted(up)} ${up.length > 1 ? "speak" : "speaks"} for “${label}”${down.length ? `, ${quoted(down)} against it` : ""}.`;
}

const percent = (share) => `${Math.round(100 * share)} %`;

// What the model makes of the row, and why it is asked: a sentence each.
function sentences(row, labels, spread) {
  const [first, second] = labels;
  const why = row.utility === null ? "This row was drawn at random, to measure the model or to cover the table." : "";
  if (kind === "numbers") return [`The model expects “${first.label}” to be about ${short(first.probability)}, give or take ${short(spread)}.`, why || "A number for this row makes other predictions more precise."];
  if (kind === "labels") {
    const held = labels.filter((one) => one.probability >= 0.5).map((one) => `“${one.label}” (${percent(one.probability)})`);
    const unsure = labels.some((one) => Math.abs(one.probability - 0.5) < 0.25);
    return [`The model expects ${held.join(", ") || "none of the labels"}.`, why || (unsure ? "It is not sure, so your answer teaches it something." : "It is fairly sure: the row was picked for what it says about others.")];
  }
  const other = second?.probability >= 0.1 ? `, or else “${second.label}” (${percent(second.probability)})` : "";
  const unsure = first.probability - (second?.probability ?? 0) < 0.5;
  return [`The model takes it for “${first.label}” (${percent(first.probability)})${other}.`, why || (unsure ? "It is not sure, so your answer teaches it something." : "It is fairly sure: the row was picked for what it says about others.")];
}

async function spell(row, turn, labels) {
  const words = await call(`/api/words/${row.row}`);
  if (turn !== asked) return; // another row is shown by now
  at("why-legend").hidden = !words.length;
  at("why-words").textContent = `${at("why-words").textContent} ${decisive(words, labels[0].label, labels[0].place)}`.trim();
  at("why-words").dataset.whole = "";
  document.querySelectorAll("#why-labels .pushes").forEach((list, k) => push(list, words, labels[k].place));
}

export async function explain(row) {
  asked += 1;
  const turn = asked;
  at("why-words").textContent = "Thinking…";
  delete at("why-words").dataset.whole;
  at("why-labels").replaceChildren();
  at("why-changes").replaceChildren();
  at("why-legend").hidden = at("why-details").hidden = true;
  try {
    const said = await call(`/api/why/${row.row}`);
    if (turn !== asked) return;
    const labels = said.labels.map((one, place) => ({ ...one, place })).sort((a, b) => b.probability - a.probability);
    const shown = labels.slice(0, LABELS);
    at("why-words").textContent = sentences(row, labels, said.spread).join(" ");
    at("why-labels").replaceChildren(...shown.map((one) => likely(one, said.spread)));
    at("why-rest").hidden = labels.length <= LABELS;
    at("why-rest").textContent = `${labels.length - LABELS} others have at most ${percent(labels[LABELS]?.probability ?? 0)} each.`;
    at("why-details").hidden = false;
    at("why-score").hidden = kind !== "class"; // no goal is watched
    if (kind === "class") {
      const most = Math.max(1e-12, ...said.labels.map((one) => Math.abs(one.utility)));
      at("why-score").textContent = `${row.utility === null ? "" : `It was asked with a score of ${row.utility.toPrecision(3)} (${said.recipe}). `}What each answer is predicted to do to the goal, per row of it:`;
      at("why-changes").replaceChildren(...shown.map((one) => gained(one, most)));
    }
    await spell(row, turn, labels);
  } catch (error) { if (turn === asked) at("why-words").textContent = error.message; }
}
