// For small screens: Kill within reach of a thumb, and folded filters.
import { fill, h } from "./dom.js";

const SMALL = matchMedia("(max-width: 640px)");

// The target of Kill on this page: its form, with the page's subject.
export function killTarget(scope, id) {
  document.getElementById("kill-now").href = `/kill?scope=${scope}&id=${encodeURIComponent(id)}`;
}

// Filters: open on a large screen, behind "Filters (n)" on a small one, with n active filters.
export function folded(...filters) {
  const summary = h("summary", {});
  const box = h("details", { class: "filters" }, summary, filters);
  const isSet = (one) => (one.tagName === "SELECT" ? one.selectedIndex > 0 : one.type !== "checkbox" && one.value !== "");
  const count = () => {
    const number = [...box.querySelectorAll("input, select")].filter(isSet).length;
    fill(summary, number ? `Filters (${number})` : "Filters");
  };
  const fit = () => (box.open = !SMALL.matches);
  box.addEventListener("change", count);
  new MutationObserver((changes) => changes.some((one) => one.target !== summary) && count()).observe(box, { childList: true, subtree: true });
  SMALL.addEventListener("change", fit);
  fit();
  count();
  return box;
}
