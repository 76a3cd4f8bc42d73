// One row on the page: text, picture or columns; only ever as text.
import { at, below, call, make } from "./net.js";

const LONG = 600;

function text(row, words) {
  at("row-text").hidden = words === null;
  at("row-text").textContent = words ?? "";
  at("row-text").classList.toggle("long", (words ?? "").length > LONG);
  at("row-whole").hidden = words === null || words.length >= row.length;
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
  text(row ?? { length: 0 }, row ? row.text : null);
  const columns = row?.columns ?? [];
  at("row-columns").hidden = columns.length === 0;
  at("row-columns").replaceChildren(...columns.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
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
  text(all, all.text);
}
