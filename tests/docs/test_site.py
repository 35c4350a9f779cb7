"""The built site in a browser: widths, accessibility and search.

mkdocs build --site-dir SITE
STREAMNB_SERVERS=1 STREAMNB_SITE=SITE pytest tests/docs/test_site.py
"""

import functools
import html
import http.server
import inspect
import os
import threading
from pathlib import Path

import pytest

SITE = os.environ.get("STREAMNB_SITE", "")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SITE, reason="STREAMNB_SITE names no built site"),
]
ROOT = Path(SITE)
PAGES = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("index.html"))
PAGES = [f"{page}/".removeprefix("./") for page in PAGES] if SITE else []
# Pages of each kind, and those of them that take axe longest.
SAMPLE = ("", "tutorials/model-in-a-program/", "tutorials/judge-a-classifier/", "guides/postfix/",
          "guides/monitor/", "benchmarks/", "notebooks/naive_bayes/", "model/", "reference/commands/",
          "reference/python/classifiers/")  # fmt: skip
LONG = ("benchmarks/", "model/", "reference/commands/")
SEARCHES = {
    "false positive": "guides/costs/",
    "threshold": "guides/costs/",
    "retrain": "guides/upgrade/",
    "forget": "guides/undo/",
    "backup": "guides/back-up/",
    "gmail": "guides/imap-account/",
    "prometheus": "guides/monitor/",
    "whitelist": "guides/many-folders/",
    "accuracy": "guides/replay/",
    "exit status": "reference/exit-statuses/",
    "GDPR": "guides/privacy/",
    "imbalanced": "guides/words/",
    "multilingual": "guides/words/",
    "overfitting": "guides/words/",
    "cross-validation": "guides/words/",
    "cross validation": "guides/words/",
    "leakage": "guides/words/",
    "significance": "guides/words/",
    "baseline": "guides/words/",
    "learning curve": "guides/words/",
    "confidence interval": "guides/words/",
    "reliability diagram": "guides/words/",
    "Laplace": "tutorials/naive-bayes-in-class/",
    "train test split": "guides/words/",
    "held out": "guides/words/",
    "missing values": "guides/words/",
    "mislabeled": "guides/words/",
    "wrong label": "guides/mislabelled/",
    "noisy labels": "guides/mislabelled/",
    "model size": "guides/bound-size/",
    "Docker": "guides/container/",
    "nginx": "guides/http/",
    "Thunderbird": "guides/thunderbird/",
    "OAuth": "guides/imap-account/",
    "quarantine": "guides/words/",
    "allowlist": "guides/many-folders/",
    "drift": "guides/river/",
    "joblib": "guides/scikit-learn/",
    "why marked": "guides/explain/",
    "migrate": "guides/words/",
    "export": "guides/back-up/",
    "exercise": "guides/exercise/",
    "homework": "guides/words/",
    "spreadsheet": "guides/import-tables/",
    "SQL": "guides/import-tables/",
    "slides": "guides/pictures/",
    "Jupyter": "guides/words/",
    "rspamd": "guides/rspamd/",
}
# Outputs keep their columns and scroll in their box on a narrow screen.
TOO_WIDE = """
() => {
    const found = [...document.querySelectorAll(".md-content pre > code")]
        .filter((code) => code.scrollWidth > code.clientWidth + 1)
        .filter((code) => innerWidth >= 1280 || !code.closest(".language-text"))
        .map((code) => code.innerText.slice(0, 80));
    if (document.documentElement.scrollWidth > innerWidth) found.push("the page");
    return found.concat([...document.querySelectorAll(".md-content img")]
        .filter((image) => image.complete && image.naturalWidth === 0)
        .map((image) => image.src));
}
"""


# Names in tables that a line break divides between two lower-case letters.
BROKEN_NAMES = """
() => [...document.querySelectorAll(".md-content td code")].filter((code) => {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    let above = null;
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        for (let place = 0; place < node.length; place++) {
            range.setStart(node, place);
            range.setEnd(node, place + 1);
            const top = range.getBoundingClientRect().top;
            const letter = /[a-z]/.test(node.data[place]);
            if (above?.letter && letter && top > above.top + 3) return true;
            above = { letter, top };
        }
    return false;
}).map((code) => code.textContent)
"""


@pytest.fixture(scope="module")
def address():
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments): ...

    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium():
    import playwright.sync_api as playwright

    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


def test_the_reference_describes_no_types_of_values():
    pages = (ROOT / "reference/python").rglob("index.html")
    text = html.unescape("".join(page.read_text(encoding="utf-8") for page in pages))
    lines = [inspect.getdoc(kind).splitlines()[0] for kind in (bool, int, float, str, dict, tuple)]
    assert [line for line in [*lines, "Alias for field number"] if line in text] == []


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_its_box(address, chromium, width):
    tab = chromium.new_page(viewport={"width": width, "height": 900})
    problems = {}
    for page in PAGES:
        tab.goto(address + page, wait_until="domcontentloaded")
        tab.wait_for_selector(".md-search[aria-label]", state="attached")  # the scripts have run
        if overflows := tab.evaluate(TOO_WIDE) + tab.evaluate(BROKEN_NAMES):
            problems[page] = overflows
    assert len(PAGES) > 40
    assert problems == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_are_accessible(address, chromium, width, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    tab = context.new_page()
    problems = []

    def check(page):
        problems.extend(
            (page, violation["id"], violation["nodes"][0]["html"][:100])
            for violation in axe.run(tab)["violations"]
        )

    for page in SAMPLE:
        if page in LONG and (width, scheme) != (1280, "light"):
            continue
        tab.goto(address + page)
        tab.wait_for_selector(".md-search[aria-label]", state="attached")
        check(page)
    tab.goto(address)
    tab.wait_for_selector(".md-search[aria-label]", state="attached")
    if width < 960:  # the box is behind a button
        tab.click("label[for=__search].md-header__button")
    tab.click(".md-search__input")
    tab.type(".md-search__input", "threshold")
    tab.wait_for_selector(".md-search-result__item", timeout=60_000)
    check("results of a search")
    assert problems == []


def test_the_search_finds_the_terms_of_the_field(address, chromium):
    tab = chromium.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(address)
    tab.click(".md-search__input")
    for term, page in SEARCHES.items():
        tab.fill(".md-search__input", "")
        tab.type(".md-search__input", term)
        # One of the first three pages that the list shows.
        first = f'.md-search-result__item:nth-child(-n+3) > a[href*="{page}"]'
        tab.wait_for_selector(first, state="attached", timeout=60_000)
