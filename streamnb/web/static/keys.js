// Keyboard shortcuts. The page works without them.
"use strict";

const rows = [...document.querySelectorAll(".messages li")];
let current = -1;

function go(to) {
  if (rows.length === 0) return;
  rows[current]?.classList.remove("current");
  current = Math.max(0, Math.min(rows.length - 1, to));
  rows[current].classList.add("current");
  rows[current].querySelector("a").focus();
}

function press(label) {
  const place = rows[current] ?? (rows.length === 0 ? document : null);
  place?.querySelector(`button[data-class="${CSS.escape(label)}"]`)?.click();
}

const actions = {
  j: () => go(current + 1),
  k: () => go(current - 1),
  x: () => rows[current]?.querySelector("input[type=checkbox]").click(),
  o: () => rows[current]?.querySelector("a").click(),
  "?": () => (list?.open ? list.close() : list?.showModal()),
};
const list = document.querySelector("#keys");
for (const key of document.querySelectorAll("kbd[data-class]")) {
  actions[key.textContent] = () => press(key.dataset.class);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), select, textarea")) return;
  if (list?.open && event.key !== "?") return;
  const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (button) {
    event.preventDefault();
    button.matches("input") ? button.focus() : button.click();
  } else if (Object.hasOwn(actions, event.key)) {
    event.preventDefault();
    actions[event.key]();
  }
});
