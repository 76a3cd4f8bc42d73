// An answer shows the next row at once, which came along before; storing goes on behind.
const LATE = 4000; // milliseconds after which an answer that was not stored is spoken of

function make(tag, name, words) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (words !== undefined) element.textContent = words;
  return element;
}

// Answers that were not stored yet, kept by the browser for the case that the kernel dies.
class Outbox {
  constructor(key) {
    this.key = key;
    try { this.items = JSON.parse(localStorage.getItem(key)) ?? []; } catch { this.items = []; }
  }

  add(item) { this.items.push(item); this.keep(); }

  done(n) { this.items = this.items.filter((item) => item.n !== n); this.keep(); }

  holds(row) { return this.items.some((item) => item.row === row); }

  keep() { try { localStorage.setItem(this.key, JSON.stringify(this.items)); } catch { /* kept in memory alone */ } }
}

function render({ model, el }) {
  const outbox = new Outbox(`goalward:${model.get("identity")}:${model.get("by")}`);
  let queue = model.get("queue");
  let classes = model.get("classes");
  let summary = model.get("summary");
  let problem = null;
  const kind = model.get("kind") ?? "class"; // "labels": any of them may hold; "numbers": one is typed
  const held = new Set(); // labels that are switched on
  let count = Date.now(); // numbers of messages: those of an earlier widget are smaller

  const box = make("div", "goalward");
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Label a row: answer by its key");
  box.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves our keys alone
  const row = make("div", "goalward-row");
  row.setAttribute("aria-live", "polite");
  const answers = make("div", "goalward-answers");
  const field = make("input", "goalward-number");
  field.type = "number";
  field.step = "any";
  const foot = make("div", "goalward-foot");
  const said = make("span", "goalward-said");
  const trouble = make("p", "goalward-problem");
  trouble.setAttribute("role", "alert");
  box.append(row, answers, foot, trouble);
  el.replaceChildren(box);

  function send(item) {
    const numbered = { ...item, n: ++count };
    outbox.add(numbered);
    model.send(numbered);
    problem = null;
    draw();
    setTimeout(draw, LATE + 50);
  }

  function answer(label) {
    const current = queue[0];
    if (!current) return;
    queue = queue.slice(1);
    held.clear();
    field.value = "";
    send({ kind: "tell", row: current.row, label, at: Date.now() });
  }

  function press(index) {
    if (kind === "class") { answer(index); return; }
    if (held.has(index)) held.delete(index); else held.add(index);
    draw();
  }

  function save() {
    if (kind === "labels") { answer([...held].sort((a, b) => a - b)); return; }
    if (kind !== "numbers") return;
    if (Number.isFinite(field.valueAsNumber)) { answer(field.valueAsNumber); field.focus(); return; }
    problem = "The answer must be a number.";
    draw();
  }

  const actions = {
    s: () => {
      const current = queue[0];
      if (!current) return;
      queue = queue.slice(1);
      send({ kind: "skip", row: current.row, at: Date.now() });
    },
    u: () => {
      queue = []; // the row that was answered comes back first
      send({ kind: "undo", at: Date.now() });
    },
  };

  function button(words, key, act, name) {
    const made = make("button", name);
    made.type = "button";
    made.tabIndex = -1;
    if (key) { made.append(make("kbd", "", key)); made.setAttribute("aria-keyshortcuts", key); }
    made.append(make("span", "", words));
    made.addEventListener("click", () => { act(); box.focus(); });
    return made;
  }

  function draw() {
    const current = queue[0];
    const shown = current ? String(current.row) : "none";
    if (row.dataset.row !== shown) {
      row.dataset.row = shown;
      if (current) row.innerHTML = current.html;
      else row.replaceChildren(make("p", "", outbox.items.length ? "…" : "Nothing is left to ask."));
    }
    const names = JSON.stringify(classes);
    if (answers.dataset.names !== names) {
      answers.dataset.names = names;
      field.setAttribute("aria-label", classes[0].label);
      const choices = kind === "numbers" ? [make("span", "", classes[0].label), field]
        : classes.map((one, index) => button(one.label, one.key, () => press(index), "goalward-answer"));
      answers.replaceChildren(...choices, ...(kind === "class" ? [] : [button("Save", "Enter", save, "goalward-save")]));
      const free = (key) => (classes.some((one) => one.key === key) ? "" : key); // a class goes before an action
      foot.replaceChildren(button("Undo", free("u"), actions.u, "goalward-action"), button("Skip", free("s"), actions.s, "goalward-action"), said);
    }
    if (kind === "labels") answers.querySelectorAll(".goalward-answer").forEach((one, index) => one.setAttribute("aria-pressed", String(held.has(index))));
    const late = outbox.items.filter((item) => Date.now() - (item.at ?? 0) > LATE).length;
    said.textContent = `${summary.labels.toLocaleString()} of ${summary.rows.toLocaleString()} rows. ${summary.headline ?? ""}`;
    const words = problem ?? (late ? `Not stored yet: ${late}. Is the kernel running? They are kept in this browser, and sent by the next widget of this study.` : summary.trouble);
    trouble.hidden = !words;
    trouble.textContent = words ?? "";
  }

  function heard(message) {
    const undone = outbox.items.find((item) => item.n === message.done)?.kind === "undo";
    outbox.done(message.done);
    ({ summary, classes, problem } = message);
    // While something is being taken back, only the reply to that says which row comes first.
    if (!outbox.items.some((item) => item.kind === "undo")) {
      const current = undone ? undefined : queue[0];
      const open = message.queue.filter((one) => !outbox.holds(one.row));
      const kept = current && open.find((one) => one.row === current.row);
      queue = kept ? [current, ...open.filter((one) => one !== kept)] : open;
    }
    draw();
  }

  // With Alt too: where a notebook takes plain keys for itself.
  function pressed(event) {
    if (event.ctrlKey || event.metaKey) return;
    const key = event.altKey ? event.code.replace(/^(Digit|Key)/, "").toLowerCase() : event.key.toLowerCase();
    const index = kind === "numbers" ? -1 : classes.findIndex((one) => one.key === key);
    // In the field of a number, keys that write numbers do that.
    const writes = event.target === field && /^([\d.,+-]|e|backspace|delete|tab|arrow.*|home|end)$/.test(key);
    if (writes) { event.stopPropagation(); return; }
    const act = index >= 0 ? () => press(index) : key === "enter" && kind !== "class" ? save : actions[key === "backspace" ? "u" : key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) act();
  }

  model.on("msg:custom", heard);
  box.addEventListener("keydown", pressed);
  for (const item of outbox.items.splice(0)) send(item);
  draw();
  return () => model.off("msg:custom", heard);
}

export default { render };
