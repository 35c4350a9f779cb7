"""Text of HTML that no reader sees, and characters that nobody sees."""

import time

import pytest

from streamnb import MailClassifier, MailTokenizer
from streamnb._core import hidden_spans
from streamnb.features.word_pairs import WordPairs

HEAD = b"Content-Type: text/html; charset=utf-8\n\n"
HIDING = [
    '<p style="display:none">{}</p>',
    "<p style='DISPLAY : None !important'>{}</p>",
    "<div style=display:none>{}</div>",
    '<div style="visibility:hidden">{}</div>',
    '<span style="font-size:0">{}</span>',
    '<span style="font-size:0px;color:red">{}</span>',
    '<span style="font:0px Arial">{}</span>',
    '<span style="font-size:1px">{}</span>',
    "<div hidden>{}</div>",
    '<div hidden="">a<p>b<p>{}</div>',
    '<font color="#ffffff">{}</font>',
    "<font color=FFFFFF>{}</font>",
    "<font color=white>{}</font>",
    '<font color="#FEFEFE">{}</font>',
    '<span style="color:rgb(255, 255, 255)">{}</span>',
    '<span style="color:#fff">{}</span>',
    '<span style="color:transparent">{}</span>',
    '<span style="color:rgba(0,0,0,0)">{}</span>',
    "<table bgcolor=black><tr><td><font color=black>{}</font></table>",
    '<div style="background-color:#123456"><b style="color:#123456">{}</b></div>',
    '<div style="background:navy;color:navy">{}</div>',
    '<div style="position:absolute;left:-9999px">{}</div>',
    '<div style="position:absolute; top: -5000px">{}</div>',
    '<div style="text-indent:-9999px">{}</div>',
    '<div style="margin-left:-2000px">{}</div>',
    '<div style="opacity:0">{}</div>',
    '<div style="max-height:0;overflow:hidden">{}</div>',
    '<div style="width:0;height:0;overflow:hidden">{}</div>',
    "<style>.x{{display:none}}</style><div class='a x'>{}</div>",
    "<style>/* .y{{}} */ p, .x, #z {{ font-size: 0 }}</style><div id=z>{}</div>",
    "<template>{}</template>",
    "<noframes>{}</noframes>",
    "<div style='d\\69 splay:none'>{}</div>",
    "<div style='display:n\\6f\\06e e'>{}</div>",
    "<span style='display:none'>a</b> {}</span>",
    "<p hidden>{}<p>",
    "<table><tr><td hidden>{}<td></table>",
    "<!-- {} -->",
]
SHOWING = [
    "<div style='font-size:0'><p style='font-size:14px'>{}</p></div>",
    "<div style='visibility:hidden'><p style='visibility:visible'>{}</p></div>",
    "<body bgcolor=black><font color=white>{}</font></body>",
    "<div style='background:#000'><a href='http://a.example/' style='color:#fff'>{}</a></div>",
    "<div style='background:url(x.png)'><font color=white>{}</font></div>",
    "<style>.d{{background:#000}}</style><div class=d><font color=white>{}</font></div>",
    "<style>@media (max-width:9px){{.x{{display:none}}}}</style><div class=x>{}</div>",
    "<div aria-hidden=true>{}</div>",
    "<div style='display:block;color:black'>{}</div>",
    "<div style='overflow:hidden;width:100%'>{}</div>",
    "<p style='display:none'>a</p>{}",
    "<br hidden>{}",
    "<ul><li hidden>a<li>{}</ul>",
    "<div style='margin-left:-5px'>{}</div>",
    "<font color=white><a href='http://a.example/'>{}</a></font>",
]


def tokens(page):
    return MailTokenizer(part="body").transform_one(HEAD + page.encode())


@pytest.mark.parametrize("page", HIDING)
def test_hidden_text_has_a_place_of_its_own(page):
    message = tokens("before " + page.format("secret words") + " after")
    assert {"hidden:secret", "hidden:words", "before", "after"} <= set(message)
    assert "secret" not in message
    pairs = WordPairs().transform_one(HEAD + page.format("secret words").encode())
    assert "secret" not in pairs


@pytest.mark.parametrize("page", SHOWING)
def test_shown_text_is_text(page):
    message = tokens(page.format("plain words"))
    assert {"plain", "words"} <= set(message)
    assert "plain" in WordPairs().transform_one(HEAD + page.format("plain words").encode())


@pytest.mark.parametrize("page", HIDING)
def test_hidden_ham_does_not_cover_spam(page):
    ham = "report meeting agenda minutes project budget review schedule team office"
    spam = "pills casino lottery prize winner cheap loans offer viagra bonus"
    model = MailClassifier()
    for _ in range(20):
        model.learn_one(HEAD + f"<p>{ham}</p>".encode(), "ham")
        model.learn_one(HEAD + f"<p>{spam}</p>".encode(), "spam")
    covered = HEAD + f"<p>{spam}</p>{page.format(ham * 30)}".encode()
    assert model.predict_proba_one(covered)["spam"] > 0.9


INVISIBLE = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200d\u2060\u2064\u2065\u3164\ufe00\ufe0f\ufeff\uffa0\U000e0001\U000e0100\U000e01ef\0"


@pytest.mark.parametrize("character", INVISIBLE, ids=[f"{ord(c):04x}" for c in INVISIBLE])
def test_invisible_characters_do_not_split_words(character):
    for head in (HEAD, b"Content-Type: text/plain; charset=utf-8\n\n"):
        raw = head + f"vi{character}ag{character}ra now".encode()
        message = MailTokenizer(part="body").transform_one(raw)
        assert message["viagra"] == 1
        assert message["hidden:character"] == 1
        assert "viagra now" in WordPairs().transform_one(raw)
    assert "hidden:character" not in tokens("viagra \u2764\ufe0f now")


@pytest.mark.parametrize(
    "page",
    [b"<div style='" + b"/*" * 5_000 + b"'>", b"<p style=" + b"a" * 2_000 + b">",
     b"<style>" + b"/*" * 30_000 + b"</style>", b"<style>" + b"a" * 60_000 + b"{</style>",
     b"<style>" + b"{" * 60_000 + b"</style>", b"<b>", b"<div hidden>", b"</b>", b"<!--", b"<p hidden",
     b"<a style=color:#fff>x</a>", b"<td><p>", b"</div", b"<font color=" + b"0" * 60 + b">",
     b"<p style='width:" + b"0" * 1_900 + b"x'>"],
)  # fmt: skip
@pytest.mark.performance
def test_hidden_text_takes_linear_time(page):
    started = time.process_time()
    for _ in range(2):
        hidden_spans(page * (1 + (1 << 19) // len(page)))
    assert time.process_time() - started < 10
