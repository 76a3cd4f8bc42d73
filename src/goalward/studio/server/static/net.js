// Requests to our own server, with the reason when one fails.

export const at = (id) => document.getElementById(id);
const study = at("main").dataset.study;
// Where the application stands: "" or a path such as /labels. Paths of the interface are below it.
export const below = (path) => document.documentElement.dataset.root + path;

export class Failed extends Error {
  // `other`: the server has another study now, and nothing of this page's may go there.
  constructor(status, reason, other = false) { super(reason); Object.assign(this, { status, other }); }
  // Worth trying again: nobody answered, or the server could not store it just now.
  get passing() { return this.status === 0 || this.status === 401 || this.status === 408 || this.status >= 500; }
}

export async function call(path, body, patience = 15000) {
  const headers = study ? { "X-Goalward-Study": study } : {};
  const options = body === undefined ? { headers } : {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(below(path), { ...options, signal: AbortSignal.timeout(patience) });
  } catch {
    throw new Failed(0, "The server cannot be reached.");
  }
  const said = await response.json().catch(() => ({}));
  if (response.ok) return said;
  // Another study is served now, or somebody else signed in.
  const other = response.headers.has(response.status === 409 ? "X-Goalward-Study" : "X-Goalward-Person");
  throw new Failed(response.status, said.error || `The server answered ${response.status}.`, other);
}

export const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  // Only ever text: whatever a row holds, it is not markup.
  if (text !== undefined) element.textContent = text;
  return element;
};

// Long names break where a word of them ends.
export const breakable = (words) => words.split(/(?<=[_/.-])/).flatMap((part) => [part, make("wbr")]);
