// Requests to the API. A failure is an Error with the server's own message.

export const me = {};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// `within_ms`: timeout of a request, in milliseconds.
export async function get(path, query, { within_ms } = {}) {
  return send("GET", path + search(query), undefined, within_ms && AbortSignal.timeout(within_ms));
}

export const post = (path, body) => send("POST", path, body);
export const remove = (path, query) => send("DELETE", path + search(query));

function search(query) {
  const reply = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && value !== null && value !== "") reply.set(name, value);
  const text = reply.toString();
  return text ? `?${text}` : "";
}

async function send(method, path, body, signal) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRF-Token"] = me.csrf ?? "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin", signal });
  } catch {
    throw new Refused(0, "The console cannot be reached. What is shown may be out of date.");
  }
  if (answer.status === 401) {
    if (!me.gone) location.assign(`/sign-in?problem=over&next=${encodeURIComponent(location.pathname + location.search)}`);
    return new Promise(() => {});
  }
  const reply = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, detail(reply) ?? `${method} ${path}: ${answer.status}`);
  return reply;
}

function detail(reply) {
  if (typeof reply?.detail === "string") return reply.detail;
  if (Array.isArray(reply?.detail)) return reply.detail.map((one) => `${one.loc.slice(1).join(".")}: ${one.msg}`).join("; ");
  return null;
}

export const may = (act) => (me.may ?? []).includes(act);

export async function signedIn() {
  Object.assign(me, await get("/signed-in"));
}
