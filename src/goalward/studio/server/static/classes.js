// Classes and guidelines while labelling: named, coloured and described, and said by whom they concern.
import { colourOf } from "./colours.js";
import { at, call, make } from "./net.js";

let now = { classes: [], guidelines: "" };

function field(kind, value, words, placeholder = "") {
  const made = make("input");
  Object.assign(made, { type: kind, value, placeholder, maxLength: 1000 });
  made.setAttribute("aria-label", words);
  if (kind === "text") made.dir = "auto";
  return made;
}

// A colour as a field takes it: what is drawn with it is read again.
function hex(colour) {
  const probe = document.body.appendChild(make("i"));
  probe.style.color = colour;
  const canvas = Object.assign(make("canvas"), { width: 1, height: 1 }).getContext("2d");
  canvas.fillStyle = getComputedStyle(probe).color;
  canvas.fillRect(0, 0, 1, 1);
  probe.remove();
  return `#${[...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

function line(one, place) {
  const box = make("div", "edited");
  const called = one ? `of ${one.label}` : "of the new class";
  const name = field("text", one ? String(one.label) : "", `Name ${called}`, "Name");
  // Numbers and truth values stay what they are.
  name.disabled = Boolean(one) && typeof one.label !== "string";
  name.required = Boolean(one);
  box.shown = hex(colourOf(one ?? {}, place));
  box.append(field("color", box.shown, `Colour ${called}`), name, field("text", one?.text ?? "", `What belongs to it, ${called}`, "What belongs to it"));
  box.known = one;
  return box;
}

function changes(box) {
  const [colour, name, text] = [...box.children].map((one) => one.value.trim());
  const one = box.known;
  if (!one && !name) return null;
  const said = { label: one ? one.label : null };
  if (name !== String(one?.label ?? "")) said.name = name;
  if (colour !== box.shown) said.colour = colour;
  if (text !== (one?.text ?? "")) said.text = text;
  return Object.keys(said).length > 1 ? said : null;
}

export function guide(summary) {
  now = summary;
  at("guide").hidden = !now.guidelines;
  at("guide-text").textContent = now.guidelines;
}

// `changed` is called with where things stand after a change.
export function edits(changed) {
  const dialog = at("classes-dialog");
  at("classes-button").addEventListener("click", () => {
    at("classes-edit").replaceChildren(...now.classes.map(line));
    at("guide-edit").value = now.guidelines;
    at("classes-problem").hidden = true;
    dialog.showModal();
  });
  at("classes-add").addEventListener("click", () => {
    at("classes-edit").append(line(null, at("classes-edit").children.length));
    at("classes-edit").lastChild.children[1].focus();
  });
  at("classes-cancel").addEventListener("click", () => dialog.close());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const all = [...at("classes-edit").children].map(changes).filter(Boolean);
    const text = at("guide-edit").value.trim();
    if (text !== now.guidelines) all.push({ text });
    try {
      for (const said of all) changed(await call("/api/classes", said));
      dialog.close();
    } catch (error) {
      at("classes-problem").textContent = error.message;
      at("classes-problem").hidden = false;
    }
  });
}
