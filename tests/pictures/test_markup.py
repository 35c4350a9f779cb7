"""Results as HTML in notebooks: complete, and safe for any text."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest

import streamnb
from streamnb.evaluate.compare import Comparison
from streamnb.evaluate.metrics import RunningMetrics
from streamnb.markup import TintedCell, html_table

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=y>",
    "&amp;<!--",
    "</td></table>",
    "a\x00b",
]


class Tags(HTMLParser):
    """The tags and attributes of a text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def check(text):
    tags = Tags(text)
    assert tags.tags <= {"table", "caption", "tr", "th", "td", "span"}
    assert tags.attributes <= {"style"}
    assert text.count("<td") == text.count("</td>")
    return unescape(re.sub(r"<[^>]*>", " ", text))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_escaped(hostile):
    text = check(html_table(hostile, [hostile], [[hostile], [TintedCell(hostile, -1.0)], [0.5]]))
    assert text.count(hostile) == 4


@pytest.mark.parametrize("hostile", HOSTILE)
def test_verdicts_reports_and_comparisons_of_hostile_mail(hostile):
    model = streamnb.TextClassifier()
    for _ in range(5):
        model.learn_one(f"{hostile} pills", hostile)
        model.learn_one("lunch at noon", "ham")
    text = check(model.classify(f"{hostile} pills lunch")._repr_html_())
    assert f"for {hostile}" in text
    assert "for ham" in text
    assert "pills" in text
    comparison = Comparison([hostile], 3, {hostile: [0.5]}, {}, {})
    assert hostile in check(comparison._repr_html_())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_text_above_its_verdict_has_tinted_words(hostile):
    texts, labels = ["free pills", "lunch at noon"] * 9, ["spam", "ham"] * 9
    verdict = streamnb.TextClassifier().fit(texts, labels).classify("Pills lunch")
    page = verdict.to_html(f"{hostile} Pills, lunch pillsbury")
    paragraph, table = page.split("</p>", 1)
    assert paragraph.startswith("<p>")
    assert re.findall(r"<span [^>]*>(\w+)</span>", paragraph) == ["Pills", "lunch"]
    assert hostile in check(paragraph[3:])
    assert table == verdict.to_html() == verdict._repr_html_() == page._repr_html_()[-len(table) :]


def test_evidence_against_is_underlined():
    text = html_table("", ["word"], [[TintedCell("up", 9.0)], [TintedCell("down", -9.0)]])
    assert re.findall(r"underline[^>]*>(\w+)", text) == ["down"]


def test_a_report_lists_its_figures():
    summary = RunningMetrics().summary()
    assert "0 messages" in check(summary._repr_html_())


@pytest.mark.parametrize("name", ["TextClassifier", "MultinomialNB", "GaussianNB", "AODE"])
def test_models_have_html(name):
    assert name in getattr(streamnb, name)()._repr_html_()
