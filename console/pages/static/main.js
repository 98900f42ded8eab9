// Every page: the signed-in user, the view of the path, the keyboard and the stream.
import { me, may, post, signedIn } from "./api.js";
import { attend, titled } from "./attention.js";
import { fill } from "./dom.js";
import { failure } from "./failure.js";
import { findBox, toSearch } from "./find.js";
import { listen, showHelp } from "./keys.js";
import { follow, soon } from "./live.js";
import { notifications } from "./notify.js";
import { killTarget } from "./phone.js";

const main = document.getElementById("main");
const [name, ...coded] = location.pathname.slice(1).split("/");

const COMMON = [
  { name: "/", what: "search everything, as Ctrl-K does", act: toSearch },
  { name: "t", what: "switch between dark and light", act: turn },
  { name: "?", what: "show this help", act: () => showHelp(COMMON) },
];

function turn() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("haltline.theme", root.dataset.theme);
}

// The height of the header, so that scrolling does not hide anything behind it.
new ResizeObserver(([{ contentRect }]) => document.documentElement.style.setProperty("--over", `${Math.round(contentRect.height)}px`)).observe(document.getElementById("over"));

async function start() {
  const arriving = main.dataset.status ? null : import(`./views/${name}.js`); // while the signed-in user is requested
  listen(COMMON);
  findBox();
  document.getElementById("theme").addEventListener("click", turn);
  document.getElementById("help").addEventListener("click", () => showHelp(COMMON));
  for (const one of document.querySelectorAll("#nav a")) if (one.pathname === `/${name}`) one.setAttribute("aria-current", "page");
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  await signedIn();
  document.getElementById("who").textContent = `${me.name} (${me.role})`;
  document.getElementById("sign-out").addEventListener("click", async () => {
    await post("/sign-out");
    me.gone = true; // later requests are refused, which is not a problem
    location.assign("/sign-in");
  });
  document.body.dataset.role = me.role;
  notifications(document.getElementById("notify"));
  document.getElementById("kill-now").hidden = name === "kill" || !may("act");
  if (name === "sessions" && coded[0]) killTarget("session", decodeURIComponent(coded[0]));
  // Connected first, so that no change between the view's requests and the stream is missed.
  const attention = attend();
  const count = soon(() => attention.count().catch(() => {}), 300);
  let notify = null;
  let asked = false;
  follow((what, data) => {
    if (what === "decision" || what === "command" || what === "missed") count();
    if (notify) notify(what, data);
    else if (asked) asked = "again";
  }, attention.stream);
  if (main.dataset.status) return; // the server has sent an error page
  const view = await arriving;
  titled(view.title);
  const again = () => asked === "again" && notify("missed", {});
  asked = true;
  notify = (await view.show(main, coded.filter(Boolean).map(decodeURIComponent), new URLSearchParams(location.search))) ?? (() => {});
  again();
}

start()
  .catch((error) => {
    if (error.status === undefined) console.error(error);
    fill(main);
    fill(main, failure(error, name, coded.filter(Boolean).map(decodeURIComponent)[0], () => location.reload()));
  })
  .finally(() => {
    main.ariaBusy = "false";
    performance.mark("usable");
  });
