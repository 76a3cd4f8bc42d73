// Charts of what the interface says, by uPlot: redrawn in place, values under the pointer or by arrow keys.
import { at, call } from "./net.js";

const HEIGHT = 190;
const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const percent = (share) => `${Math.round(100 * share)} %`;
const short = (number) => Number(number.toPrecision(3)).toString();
const { measure } = JSON.parse(at("main").dataset.summary); // null where it is accuracy
const drawn = {};

const axis = (label, values) => ({
  label, labelSize: 18, labelGap: -4, size: label ? 30 : 46, font: "12px system-ui", labelFont: "12px system-ui", values,
  stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false },
});
const answers = { time: false, range: (u, first, last) => [0, Math.max(10, last ?? 0)] };
const line = (name, more) => ({ stroke: colour(name), width: 2, spanGaps: true, points: { show: true, size: 6, fill: colour(name) }, ...more });

// One point for each number of answers, the last that was measured there; undone answers go back.
function measured(rounds, kept) {
  const last = new Map(rounds.filter(kept).map((round) => [round.bought, round]));
  return [...last.values()].sort((a, b) => a.bought - b.bought);
}

const CHARTS = {
  learning: {
    // What studies of earlier versions measured has no interval: a line of its own, dashed.
    data({ rounds }) {
      const good = measure ? "score" : "accuracy";
      const known = measured(rounds, (round) => round[good] !== null);
      const of = (name, whole) => known.map((round) => ((round.low !== null) === whole ? round[name] : null));
      return [known.map((round) => round.bought), of("low", true), of("high", true), of(good, true), of(good, false)];
    },
    says([bought, low, high, right, earlier], i) {
      if (measure) return `${bought[i]} answers: ${measure} ${right[i] === null ? short(earlier[i]) : `about ${right[i].toFixed(2)} (${low[i].toFixed(2)} to ${high[i].toFixed(2)})`}`;
      return right[i] === null ? `${bought[i]} answers: ${percent(earlier[i])} of the answers that measured were right`
        : `${bought[i]} answers: about ${percent(right[i])} right (${Math.floor(100 * low[i])} to ${Math.ceil(100 * high[i])} %)`;
    },
    options: {
      scales: { x: answers, y: { range: (u, low) => [Math.max(measure ? -1 : 0, Math.floor(10 * Math.min(low ?? 0, 0.9)) / 10), 1] } },
      axes: [axis("answers"), axis("", (u, ticks) => ticks.map(measure ? short : percent))],
      series: [{}, { stroke: null, points: { show: false } }, { stroke: null, points: { show: false } }, line("data-1"), line("data-2", { dash: [6, 4] })],
      bands: [{ series: [2, 1], fill: colour("data-band") }],
    },
  },
  goal: {
    data({ rounds }) {
      // It has another scale once there are answers set aside.
      const now = rounds.at(-1)?.metric === "dev";
      const known = measured(rounds, (round) => round.goal !== null && (round.metric === "dev") === now);
      return [known.map((round) => round.bought), known.map((round) => round.goal)];
    },
    says: ([bought, goal], i) => `${bought[i]} answers: ${short(goal[i])} per row`,
    options: {
      scales: { x: answers },
      axes: [axis("answers"), { ...axis(""), size: 56 }],
      series: [{}, line("data-1")],
    },
  },
  scores: {
    // Quantiles at equal steps are a small sample of all scores.
    data({ quantiles, next }) {
      CHARTS.scores.next = next;
      if (!quantiles.length) return [[], []];
      const bins = 24, points = 4000, low = quantiles[0], step = (quantiles.at(-1) - low) / bins || 1;
      const share = Array(bins).fill(0);
      for (let i = 0; i < points; i += 1) {
        const place = ((i + 0.5) / points) * (quantiles.length - 1), k = Math.floor(place);
        const score = quantiles[k] + (place - k) * (quantiles[k + 1] - quantiles[k]);
        share[Math.min(bins - 1, Math.floor((score - low) / step))] += 1 / points;
      }
      return [share.map((_, k) => low + (k + 0.5) * step), share];
    },
    says: ([score, share], i) => `scores about ${short(score[i])}: ${percent(share[i])} of the open rows`,
    rest: "Ticks below: the rows that are asked next.",
    options: {
      scales: { x: { time: false } },
      axes: [axis("score", (u, ticks) => ticks.map(short)), axis("", (u, ticks) => ticks.map(percent))],
      series: [{}, { stroke: colour("data-1"), fill: colour("data-band"), width: 1, paths: window.uPlot.paths.bars({ size: [1] }), points: { show: false } }],
      hooks: { draw: [(u) => {
        u.ctx.fillStyle = colour("ink")();
        for (const value of CHARTS.scores.next) u.ctx.fillRect(u.valToPos(value, "x", true) - 1, u.bbox.top + u.bbox.height - 14, 2, 14);
      }] },
    },
  },
};

function begin(name, data) {
  const figure = document.querySelector(`[data-chart="${name}"]`);
  const [box, words] = [figure.querySelector(".plot"), figure.querySelector(".readout")];
  const { options, says, rest } = CHARTS[name];
  const tell = (u) => {
    const i = u.cursor.idx ?? u.data[0].length - 1;
    const said = i < 0 ? "Not known yet: a few more answers are needed." : u.cursor.idx === null && rest ? rest : says(u.data, i);
    words.textContent = said;
    box.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent}. ${said}`);
  };
  const hooks = { ...options.hooks, setCursor: [tell], setData: [tell] };
  const width = () => Math.max(120, box.clientWidth);
  const u = new window.uPlot({ width: width(), height: HEIGHT, legend: { show: false }, cursor: { y: false, drag: { x: false } }, ...options, hooks }, data, box);
  tell(u);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const last = u.data[0].length - 1;
    const i = Math.min(last, Math.max(0, (u.cursor.idx ?? last + (step < 0)) + step));
    u.setCursor({ left: u.valToPos(u.data[0][i], "x"), top: 0 });
  });
  box.addEventListener("blur", () => u.setCursor({ left: -10, top: -10 }));
  new ResizeObserver(() => { if (box.clientWidth && u.width !== width()) u.setSize({ width: width(), height: HEIGHT }); }).observe(box);
  return u;
}

// What was drawn stays until there is something newer, and if that cannot be had.
export async function charts() {
  const asked = await Promise.all([call("/api/curve"), call("/api/utilities")]).catch(() => null);
  if (asked === null) return; // the next ranking asks again
  const [rounds, scores] = asked;
  for (const [name, { data }] of Object.entries(CHARTS)) {
    if (!document.querySelector(`[data-chart="${name}"]`)) continue; // no goal is watched
    const found = data({ rounds, ...scores });
    if (drawn[name]) drawn[name].setData(found); else drawn[name] = begin(name, found);
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const u of Object.values(drawn)) u.redraw();
});
