// The start page: a table is dropped or chosen, its columns and the answers are named, and it begins.
import { cue } from "./cue.js";
import { at, below, call, make } from "./net.js";

const USES = [["text", "text, for you and the model"], ["numeric", "number, for the model"], ["category", "category, for the model"], ["image", "picture, by its path"], ["answers", "answers given already"], ["shown", "shown to you only"]];
const PATIENCE = 600000; // a large table takes a while
const WIDE = 6; // columns of the preview
let chosen = null; // the table, and its sheet
let known = null; // what is known of it

function complain(words) {
  at("problem").hidden = !words;
  at("problem").textContent = words || "";
  if (words) at("problem").scrollIntoView({ block: "center" });
}

// One thing at a time; says what is done, and what went wrong.
async function busy(words, doing) {
  complain();
  at("doing").textContent = words;
  const held = [...document.querySelectorAll("button, input, select")].filter((one) => !one.disabled);
  for (const one of held) one.disabled = true;
  try { await doing(); } catch (error) { complain(error.message); }
  for (const one of held) one.disabled = false;
  at("doing").textContent = "";
}

const go = async (path, body) => { location.href = (await call(path, body, PATIENCE)).path; };

function column(one, number) {
  const box = make("div", "column");
  const name = make("label", "", one.name);
  name.htmlFor = `use-${number}`;
  name.dir = "auto";
  const use = make("select");
  use.id = `use-${number}`;
  use.dataset.name = one.name;
  use.addEventListener("change", () => {
    if (use.value === "answers" && one.values.length) at("classes-text").value = one.values.join("\n");
    summarize();
  });
  for (const [value, words] of USES) {
    const option = make("option", "", words);
    option.value = value;
    option.selected = value === one.use;
    use.append(option);
  }
  const cells = make("p", "soft small cells", one.cells.filter(Boolean).join(" · ") || "empty");
  cells.dir = "auto";
  box.append(name, cells, use);
  if (one.why && one.use === "shown") box.append(make("p", "soft small", `Not for the model: ${one.why}.`));
  return box;
}

const uses = () => Object.fromEntries([...at("columns").querySelectorAll("select")].map((use) => [use.dataset.name, use.value]));
const joined = (parts) => [parts.slice(0, -1).join(", "), parts.at(-1)].filter(Boolean).join(" and ");
const list = (names) => (names.length > 3 ? `${names.length} columns` : joined(names.map((name) => `“${name}”`)));

// In one sentence, what the model makes of the columns.
function summarize() {
  const of = uses();
  const used = (...kinds) => Object.keys(of).filter((name) => kinds.includes(of[name]));
  const parts = [["reads", used("text")], ["looks at the pictures of", used("image")], ["learns from", used("numeric", "category")], ["takes as given the answers in", used("answers")]];
  const said = parts.filter(([, names]) => names.length).map(([verb, names]) => `${verb} ${list(names)}`);
  const nothing = !used("text", "image", "numeric", "category").length;
  at("study-rows").textContent = `${known.rows.toLocaleString("en")} rows: ${nothing ? "say below which columns the model reads or learns from" : `the model ${joined(said)}`}.`;
  if (nothing) at("columns-fold").open = true;
  preview(of);
}

// The first rows as a table, those columns first that matter.
function preview(of) {
  const order = ["text", "image", "answers", "numeric", "category", "shown"];
  const columns = known.columns.toSorted((a, b) => order.indexOf(of[a.name]) - order.indexOf(of[b.name])).slice(0, WIDE);
  const line = (tag, cells) => {
    const row = make("tr");
    row.append(...cells.map((words) => Object.assign(make(tag, "", words), { dir: "auto" })));
    return row;
  };
  const head = line("th", columns.map((one) => one.name));
  for (const one of head.children) one.scope = "col";
  const lines = (columns[0]?.cells ?? []).map((_, k) => line("td", columns.map((one) => one.cells[k])));
  at("preview").replaceChildren(head, ...lines);
  const left = known.columns.length - columns.length;
  at("preview-more").hidden = left === 0;
  at("preview-more").textContent = `and ${left} more ${left === 1 ? "column" : "columns"}`;
}

function show(table) {
  if (table.begun) return go("/api/start/study", { table: table.table, classes: [], uses: {} });
  chosen = { table: table.table, sheet: table.sheet };
  at("sheet-choice").hidden = table.sheets.length < 2;
  at("sheet").replaceChildren(...table.sheets.map((name) => new Option(name, name, false, name === table.sheet)));
  at("study-title").textContent = table.name;
  at("columns").replaceChildren(...table.columns.map(column));
  at("columns-fold").open = false;
  at("classes-text").value = table.classes.join("\n");
  at("classes-text").rows = Math.min(10, Math.max(4, table.classes.length));
  known = table;
  summarize();
  at("choose").hidden = true;
  at("study").hidden = false;
  at("study-title").focus();
}

const look = (table, sheet = null) => busy("Reading the table…", async () => show(await call("/api/start/look", { table, sheet }, PATIENCE)));

async function bring(file, name) {
  let response;
  try {
    response = await fetch(below(`/api/start/upload?name=${encodeURIComponent(name)}`), {
      method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file,
    });
  } catch { throw new Error("The file could not be sent: it is larger than 1 GB, or the server has ended."); }
  const said = await response.json();
  if (!response.ok) throw new Error(said.error);
  return said.table;
}

// One table, or the pictures of a folder under their names in it.
function take(files) {
  const pictures = files.filter((file) => file.type.startsWith("image/"));
  const all = pictures.length ? pictures : files.slice(0, 1);
  if (all.length === 0) return;
  busy(`Copying ${all[0].name}…`, async () => {
    let table;
    for (const [number, file] of all.entries()) {
      if (number) at("doing").textContent = `Copying ${number + 1} of ${all.length} pictures…`;
      table = await bring(file, pictures.length ? file.webkitRelativePath || `pictures/${file.name}` : file.name);
    }
    await show(await call("/api/start/look", { table }, PATIENCE));
  });
}

for (const id of ["file", "pictures"]) at(id).addEventListener("change", () => take([...at(id).files]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop" && !at("choose").hidden) take([...event.dataTransfer.files]);
  });
}
for (const button of document.querySelectorAll("[data-table]")) button.addEventListener("click", () => look(Number(button.dataset.table)));
at("sample").addEventListener("click", () => busy("Opening the sample…", () => go("/api/start/sample", {})));
at("sheet").addEventListener("change", () => look(chosen.table, at("sheet").value));
at("back").addEventListener("click", () => { at("study").hidden = true; at("choose").hidden = false; complain(); });
at("study").addEventListener("submit", (event) => {
  event.preventDefault();
  const lines = at("classes-text").value.trim().split("\n");
  // A single line is a list with commas, as on the command line: what is in quotes may have some.
  const listed = () => (lines[0].match(/\s*"[^"]*"|[^,]+/g) ?? []).map((name) => name.trim().replace(/^"(.*)"$/, "$1"));
  const classes = (lines.length === 1 ? listed() : lines).map((name) => name.trim()).filter(Boolean);
  busy("Making the study: reading the rows…", () => go("/api/start/study", { ...chosen, classes, uses: uses() }));
});
cue(at("columns"));
// A table that was named is read first; the others are offered where that fails.
if (at("main").dataset.named) look(Number(at("main").dataset.named)).then(() => { at("choose").hidden = !at("study").hidden; });
