// Keys for those who have a keyboard; everything works without.
"use strict";

const rows = [...document.querySelectorAll(".messages li")];
let here = -1;

function go(to) {
  if (rows.length === 0) return;
  rows[here]?.classList.remove("here");
  here = Math.max(0, Math.min(rows.length - 1, to));
  rows[here].classList.add("here");
  rows[here].querySelector("a").focus();
}

function press(label) {
  const place = rows[here] ?? (rows.length === 0 ? document : null);
  place?.querySelector(`button[data-class="${label}"]`)?.click();
}

const actions = {
  j: () => go(here + 1),
  k: () => go(here - 1),
  s: () => press("spam"),
  h: () => press("ham"),
  x: () => rows[here]?.querySelector("input[type=checkbox]").click(),
  o: () => rows[here]?.querySelector("a").click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (button) {
    event.preventDefault();
    button.matches("input") ? button.focus() : button.click();
  } else if (Object.hasOwn(actions, event.key)) {
    event.preventDefault();
    actions[event.key]();
  }
});
