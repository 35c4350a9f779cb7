// Name what the theme leaves without a name, and let the keyboard scroll wide tables and outputs.
// In tables, break long names between their parts (streamnb_|messages_|total) and short ones not at all.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-typeset td code").forEach((code) => {
    if (code.textContent.length <= 14) code.classList.add("short");
    else if (!code.querySelector("wbr") && !code.children.length) {
      const parts = code.textContent.split(/(?<=[a-z0-9][_.=(,/&|]+)|(?<=[a-z])(?=[A-Z])/);
      code.replaceChildren(...parts.flatMap((part) => [document.createElement("wbr"), part]).slice(1));
    }
  });
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
});
// The theme adds a bar to each block of code when it comes into view.
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((bar) => {
    const count = document.querySelectorAll(".md-code__nav[aria-label]").length;
    bar.setAttribute("aria-label", `Code ${count + 1}`);
  });
}).observe(document.body, { childList: true, subtree: true });
