// Every page: who is signed in, the view that the path names, the keyboard and what is live.
import { get, me, post, signedIn } from "./api.js";
import { fill, problem } from "./dom.js";
import { listen, showHelp } from "./keys.js";
import { follow, soon } from "./live.js";

const main = document.getElementById("main");
const [name, ...coded] = location.pathname.slice(1).split("/");

const COMMON = [
  { name: "/", what: "search", act: () => main.querySelector("input[type=search]")?.focus() },
  { name: "t", what: "dark or light", act: turn },
  { name: "?", what: "this help", act: () => showHelp(COMMON) },
];

function turn() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("haltline.theme", root.dataset.theme);
}

async function waiting() {
  const { waiting: number } = await get("/api/v1/fleet");
  const place = document.getElementById("waiting");
  place.textContent = number;
  place.title = `${number} wait for an answer`;
  place.hidden = number === 0;
}

async function start() {
  const arriving = import(`./views/${name}.js`); // while it is asked who is signed in
  listen(COMMON);
  document.getElementById("theme").addEventListener("click", turn);
  document.getElementById("help").addEventListener("click", () => showHelp(COMMON));
  for (const one of document.querySelectorAll("#nav a")) if (one.pathname === `/${name}`) one.setAttribute("aria-current", "page");
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  await signedIn();
  document.getElementById("who").textContent = `${me.name} (${me.role})`;
  document.getElementById("sign-out").addEventListener("click", async () => {
    await post("/sign-out");
    me.gone = true; // what is still asked for meanwhile is refused, and is no reason to say so
    location.assign("/sign-in");
  });
  document.body.dataset.role = me.role;
  // Listened to first, so that nothing falls between what the view asks for and what it is sent.
  const count = soon(() => waiting().catch(() => {}), 300);
  count();
  let notify = null;
  let asked = false;
  follow((what, data) => {
    if (what === "decision" || what === "command" || what === "missed") count();
    if (notify) notify(what, data);
    else if (asked) asked = "again";
  });
  const view = await arriving;
  document.title = `${view.title} - haltline`;
  const again = () => asked === "again" && notify("missed", {});
  asked = true;
  notify = (await view.show(main, coded.filter(Boolean).map(decodeURIComponent), new URLSearchParams(location.search))) ?? (() => {});
  again();
}

start().catch((error) => {
  console.error(error);
  fill(main, problem(error, () => location.reload()));
});
