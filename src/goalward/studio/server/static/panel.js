// The side panel: progress, classes, curves, and whether to stop. Told by the server what is new.
import { charts } from "./charts.js";
import { colourOf, tint } from "./colours.js";
import { at, below, call, make } from "./net.js";

const key = `goalward:${at("main").dataset.study}:price-in-accuracy`;
const short = (number) => (number === null || number === undefined ? "–" : Number(number.toPrecision(3)).toString());
const count = (number) => number.toLocaleString("en");
const { measure } = JSON.parse(at("main").dataset.summary); // null where it is accuracy
const FEW = 12; // classes that are all shown
const MOST = 6; // of more than these
let rounds = -1;
let asked = 0;

function progress(now) {
  at("count").textContent = count(now.labels);
  at("rows").textContent = count(now.rows);
  const parts = [];
  if (now.dev) parts.push(`${count(now.training)} train, ${count(now.dev)} measure`);
  if (now.skipped) parts.push(`${count(now.skipped)} skipped`);
  if (now.disagreements) parts.push(`${count(now.disagreements)} in dispute`);
  const people = Object.keys(now.annotators).length;
  if (people > 1) parts.push(`${people} annotators`);
  at("parts").textContent = parts.join(" · ");
  at("meter-fill").style.width = `${(100 * (now.labels + now.skipped)) / now.rows}%`;
  at("sure")?.toggleAttribute("hidden", !now.model);
  perClass(now.classes);
}

// A bar for each class that has answers: of many, those with most, the others folded; and how many have none.
function perClass(classes) {
  const most = Math.max(1, ...classes.map((one) => one.labels));
  const line = ({ one, place }) => {
    const item = make("li");
    item.append(make("span", "name", String(one.label)), make("span", "number", count(one.labels)));
    item.firstChild.title = one.label;
    if (!one.labels) return item;
    const track = make("span", "track");
    const fill = tint(make("i"), colourOf(one, place));
    fill.style.width = `${(100 * one.labels) / most}%`;
    track.append(fill);
    item.append(track);
    return item;
  };
  const all = classes.map((one, place) => ({ one, place }));
  const many = all.length > FEW;
  const begun = many ? all.filter(({ one }) => one.labels).sort((a, b) => b.one.labels - a.one.labels) : all;
  const first = many ? MOST : FEW;
  at("classes").replaceChildren(...begun.slice(0, first).map(line));
  at("more-classes").replaceChildren(...begun.slice(first).map(line));
  at("more").hidden = begun.length <= first;
  at("more-said").textContent = `${begun.length - first} more with answers`;
  at("none-yet").hidden = begun.length === all.length;
  at("none-yet").textContent = `${all.length - begun.length} of ${all.length} have no answer yet.`;
}

// How far the rows are read: "encoded 2,048 of 10,000 texts" fills a bar.
function preparing(said) {
  at("preparing").hidden = !said;
  if (!said) return;
  at("preparing-words").textContent = `${said}: rows come in a random order until then.`;
  const [done, all] = (said.match(/[\d,]+(?= of )|(?<= of )[\d,]+/g) || []).map((n) => Number(n.replaceAll(",", "")));
  if (all) at("preparing-bar").value = done / all;
  else at("preparing-bar").removeAttribute("value");
}

function curves(now) {
  at("fitting").hidden = !now.fitting;
  preparing(now.preparing);
  at("trouble").hidden = !now.trouble;
  at("trouble").textContent = now.trouble || "";
  at("charts").hidden = !now.ranking;
  at("no-charts").hidden = Boolean(now.ranking);
  at("details").hidden = !now.ranking;
  // With nothing left to ask, only how good it is: no advice.
  at("headline").textContent = (now.left || !now.accuracy ? now.headline : now.accuracy.says).replaceAll(" %", "\u00a0%");
  // The last answers of all make no ranking any more, and end the advice.
  if (!now.ranking || (now.rounds === rounds && now.left)) return;
  rounds = now.rounds;
  charts();
  advise();
}

function spent({ answers, training, dev, gained }) {
  at("account").hidden = !answers;
  const parts = [`At the last fit: ${count(answers)} answers${dev ? ` (${count(training)} rows train the model, ${count(dev)} measure it)` : ""}`];
  if (gained !== null) parts.push(`the goal ${gained < 0 ? "fell" : "rose"} by ${short(Math.abs(gained))}`);
  at("account").textContent = `${parts.join("; ")}.`;
}

function rules(list) {
  const known = list.filter((one) => one.stop !== null);
  at("rules").hidden = known.length === 0;
  at("rules-said").textContent = `${known.filter((one) => one.stop).length} of ${known.length} stopping rules say stop`;
  at("rules-list").replaceChildren(...list.filter((one) => one.name !== "budget").map((one) => {
    const item = make("li", one.stop ? "ends" : one.stop === null ? "unknown" : "");
    item.title = `${one.says}. ${one.source}`;
    const value = one.value === null ? "" : `${short(one.value)} / ${short(one.threshold)}`;
    item.append(make("span", "name", one.name), make("span", "number", value), make("span", "verdict", one.verdict));
    return item;
  }));
}

async function advise() {
  const price = Number(at("price").value);
  const valid = price > 0 && Number.isFinite(price);
  at("price").setAttribute("aria-invalid", String(!valid));
  if (!valid) return;
  asked += 1;
  const turn = asked;
  try {
    const said = await call(`/api/stop?price=${encodeURIComponent(price)}`);
    if (turn !== asked) return; // a later question was answered sooner
    at("stop").classList.toggle("ends", said.stop);
    at("gain-line").hidden = said.high === null;
    at("gain").textContent = said.high === null ? "" : measure ? said.high.toFixed(3) : `${(100 * said.high).toFixed(1)} points`;
    at("advice").textContent = said.high === null ? said.reason
      : said.stop ? `You could stop now. ${said.reason}` : said.reason;
    spent(said.account);
    rules(said.criteria);
  } catch { /* the next ranking asks again */ }
}

// `other` is called when the news are of another study, `told` with those of this one.
export function panel(other, told) {
  let price = "0.0002";
  try { price = localStorage.getItem(key) || price; } catch { /* no store */ }
  at("price").value = price;
  at("price").addEventListener("change", () => {
    try { localStorage.setItem(key, at("price").value); } catch { /* no store */ }
    advise();
  });
  const show = (now) => {
    if (now.study !== at("main").dataset.study) { other(); return; }
    told(now);
    progress(now);
    curves(now);
  };
  show(JSON.parse(at("main").dataset.summary));
  // Browsers allow a server six connections over all tabs: those nobody looks at let go of theirs.
  let news = null;
  const listen = () => {
    news?.close();
    news = null;
    if (document.hidden) return;
    news = new EventSource(below("/api/events"));
    news.addEventListener("summary", (event) => show(JSON.parse(event.data)));
  };
  document.addEventListener("visibilitychange", listen);
  listen();
}
