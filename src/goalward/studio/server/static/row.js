// One row on the page: text, picture or columns; only ever as text.
import { cue } from "./cue.js";
import { at, below, breakable, call, make } from "./net.js";

const LONG = 600;
const SHORT = 24; // characters of a cell that fits into a grid
const GRID = 6; // such cells make one
const DENSE = 24; // cells of a tight one

function text(words) {
  at("row-text").hidden = words === null;
  at("row-text").textContent = words ?? "";
  at("row-text").classList.toggle("long", (words ?? "").length > LONG);
}

// A number of many decimals without the last ones, and a sign that there are more; nothing is rounded.
function cell(value) {
  const [short] = value.match(/^-?\d{1,5}\.0*[1-9]\d{3}(?=\d+$)/) ?? [value];
  const made = make("dd", "", short);
  if (short !== value) {
    made.title = value;
    made.append(make("span", "soft", "…"));
  }
  return made;
}

// Short cells as a grid where there are many, long ones in lines of their own.
function columns(all) {
  const short = all.filter(([, value]) => value.length <= SHORT);
  const grid = short.length >= GRID ? short : [];
  at("row-facts").hidden = grid.length === 0;
  at("row-facts").classList.toggle("dense", grid.length > DENSE);
  at("row-facts").replaceChildren(...grid.map(([name, value]) => {
    const box = make("div");
    box.append(make("dt"), cell(value));
    box.firstChild.append(...breakable(name));
    return box;
  }));
  const lines = all.filter((one) => !grid.includes(one));
  at("row-columns").hidden = lines.length === 0;
  at("row-columns").replaceChildren(...lines.flatMap(([name, value]) => [make("dt", "", name), cell(value)]));
}

function left(row) {
  at("row-whole").hidden = !row?.left;
  at("row-whole").textContent = `Show all of it: ${row?.left}`;
}

export function show(row, empty) {
  at("row").setAttribute("aria-busy", String(!row && empty === undefined));
  at("row-empty").hidden = Boolean(row);
  at("row-empty").textContent = empty ?? "Choosing the next row…";
  at("row-number").textContent = row ? row.name : "";
  at("row-origin").textContent = row && row.utility !== null ? "chosen by the model" : "";
  const image = at("row-image");
  image.hidden = !row?.image;
  if (row?.image && image.getAttribute("src") !== below(row.image)) {
    image.src = below(row.image);
    image.alt = `Picture of ${row.name}`;
  }
  text(row ? row.text : null);
  columns(row?.columns ?? []);
  left(row);
  notes(row ?? { notes: [], n_notes: 0 });
  at("row").scrollTop = 0;
}

export function notes(row) {
  const said = row.notes.map((note) => `${note.text} (${note.by})`);
  if (row.n_notes > said.length) said.unshift(`${row.n_notes - said.length} earlier notes`);
  at("row-notes").hidden = said.length === 0;
  at("row-notes").replaceChildren(...said.map((words) => make("li", "", words)));
}

export function preload(row) {
  if (row.image) new Image().src = below(row.image);
}

at("row-image").addEventListener("load", (event) => {
  event.target.classList.toggle("tiny", event.target.naturalWidth <= 64);
});

export async function whole(row) {
  const all = await call(`/api/rows/${row.row}?whole=true`);
  text(all.text);
  columns(all.columns);
  left(all);
}
cue(at("row"));
