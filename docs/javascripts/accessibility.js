// Name what the theme leaves without a name, and let the keyboard scroll wide tables and outputs.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
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
