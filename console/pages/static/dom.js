// Elements from values. Every text becomes a text node: an agent's text is never markup.

// Invisible characters: for example those that reverse the text direction or break a line.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

// An untrusted text with these characters shown by their number.
export const seen = (text) => text.replace(UNSEEN, (sign) => `\u2039U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u203a`);

export function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected" || name === "indeterminate") made[name] = value;
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "href" && !/^[/#?]/.test(value)) throw new Error(`href: expected a place of this console, got ${value}`);
    else made.setAttribute(name, value === true ? "" : name === "title" || name === "aria-label" ? seen(String(value)) : value);
  }
  made.append(...nodes(children));
  return made;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((one) => one !== null && one !== undefined && one !== false && one !== "")
    .map((one) => (one instanceof Node ? one : seen(String(one))));
}

export function fill(place, ...children) {
  place.replaceChildren(...nodes(children));
  return place;
}

export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

export const link = (to, text, more) => h("a", { href: to, ...more }, text);

// A path within the page, set off from the text around it.
export const mono = (text, more) => h("span", { class: "mono", ...more }, text);

export function badge(word, kind) {
  return h("span", { class: `badge ${kind ?? kindOf(word)}` }, word);
}

const KINDS = {
  bad: ["KILL", "ROLLBACK", "BLOCK", "killed", "critical", "blocked", "loop_detected", "hard_block", "rejected", "rejected_after_review", "expired", "kill"],
  warn: ["PAUSE", "ASK", "THROTTLE", "held", "frozen", "contained", "high", "escalated", "approval_required", "pending", "info_requested", "missed", "false_alarm"],
  mild: ["REINFORCE", "NUDGE", "probation", "medium", "warned", "warning", "modified", "rate_limited"],
  good: ["ALLOW", "live", "approved", "used", "approved_after_review", "confirmed", "low", "minimal"],
};
function kindOf(word) {
  for (const [kind, words] of Object.entries(KINDS)) if (words.includes(word)) return kind;
  return "plain";
}

export const empty = (title, hint) => h("div", { class: "empty" }, h("p", {}, title), hint && h("p", { class: "hint" }, hint));

export const loading = (what) => h("p", { class: "loading", role: "status" }, what ?? "Loading");

export function problem(error, again) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", {}, error.message || String(error)),
    again && h("button", { type: "button", onclick: again }, "Try again"),
  );
}

export const panel = (title, ...children) => h("section", { class: "panel", "aria-label": typeof title === "string" ? title : undefined }, title && h("h2", {}, title), ...children);

export function field(label, input, hint) {
  if (!input.id) input.id = `f-${Math.random().toString(36).slice(2)}`;
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, hint && h("p", { class: "hint" }, hint));
}

export function choose(options, chosen, more) {
  return h(
    "select",
    more,
    options.map(([value, text]) => h("option", { value, selected: value === (chosen ?? "") }, text)),
  );
}

// Human-readable JSON, as text.
export const json = (value) => h("pre", { class: "json", tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2));

// A list of names and values.
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

// The beginning of a long text; the whole text in the tooltip, or at the link.
const LONG = 60;
const short = (content) => {
  const made = h("div", { class: "short" }, content);
  if (made.textContent.length > LONG && !made.querySelector("[title]")) made.title = made.textContent;
  return made;
};
const cellOf = (column, row) => {
  const content = column.cell(row);
  if (content === "" || content == null || content === false) return "";
  return column.class === "id" || (typeof content === "string" && content.length > LONG) ? short(content) : content;
};

// A table whose rows have keys. `update` keeps the focus where it was.
export function table(columns, { caption, onopen } = {}) {
  const body = h("tbody");
  const made = h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      caption && h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => (column.head ? h("th", { scope: "col", class: column.class }, column.head) : h("td"))))),
      body,
    ),
  );
  made.update = (rows) => {
    const held = document.activeElement?.closest?.("tr[data-key]");
    const key = held && body.contains(held) ? held.dataset.key : null;
    const inside = key === null ? -1 : focusable(held).indexOf(document.activeElement);
    fill(
      body,
      rows.map((row) =>
        h(
          "tr",
          { data: { key: row.key }, class: row.class, tabindex: onopen && !row.line ? "0" : undefined, onclick: onopen && !row.line && opens(onopen, row), onkeydown: onopen && !row.line && entered(onopen, row) },
          row.line ? h("td", { class: "wide", colspan: columns.length }, row.line) : columns.map((column) => h("td", { class: column.class, data: { head: typeof column.head === "string" ? column.head : "" } }, cellOf(column, row))),
        ),
      ),
    );
    if (key !== null) {
      const again = [...body.rows].find((row) => row.dataset.key === key);
      if (again) (inside < 0 ? again : (focusable(again)[inside] ?? again)).focus();
    }
  };
  return made;
}

const focusable = (row) => [...row.querySelectorAll("a, button, input")];
const opens = (open, row) => (event) => {
  if (!event.target.closest("a, button, input, label")) open(row);
};
const entered = (open, row) => (event) => {
  if (event.key === "Enter" && event.target === event.currentTarget) open(row);
};

// Asks for confirmation. Resolves to the entered values, or null.
export function ask({ title, text, action, danger, fields = [] }) {
  return new Promise((resolve) => {
    const invalid = h("p", { class: "problem", role: "alert", hidden: true });
    const form = h(
      "form",
      { method: "dialog", novalidate: true },
      h("h2", {}, title),
      text && h("div", {}, text),
      fields.map((one) => field(one.label, (one.input = one.make()), one.hint)),
      invalid,
      h(
        "div",
        { class: "row end" },
        h("button", { type: "button", onclick: () => close(null) }, "Cancel"),
        h("button", { type: "submit", class: danger ? "danger" : "primary" }, action),
      ),
    );
    const dialog = h("dialog", { "aria-label": title }, form);
    const close = (value) => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = Object.fromEntries(fields.map((one) => [one.name, one.input.value.trim()]));
      const missing = fields.find((one) => one.required !== false && !values[one.name]);
      if (missing) {
        invalid.textContent = `${missing.label}: expected a text, got none.`;
        invalid.hidden = false;
        missing.input.focus();
        return;
      }
      close(values);
    });
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const why = (hint) => ({ name: "reason", label: "Reason", hint: hint ?? "Kept in the audit with your name.", make: () => h("textarea", { rows: "2", maxlength: "4096", required: true }) });

// A message at the bottom of the page, also announced to screen readers.
export function tell(text, kind) {
  let place = document.getElementById("notice");
  if (!place) {
    place = h("div", { id: "notice", role: "status" });
    document.body.append(place);
  }
  fill(place, h("p", { class: kind ?? "" }, text));
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => fill(place), 8000);
}
