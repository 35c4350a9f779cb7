"""Selectors of style sheets: they hide what a browser hides, and nothing else."""

import pytest

from streamnb import MailTokenizer

PAGE = (
    "<html><head><style>{rule}{{display:none}}</style></head><body><div><b>bold</b>"
    "<p class='x y' id=i title=t lang=en-us>TEXT</p><i>italic</i></div></body></html>"
)
HIDING = [
    "p:not(.q)", ":not(.q)", "p:not(b)", ".x:not(.z):not(#j)", "[title]", "p[title]", "[title=t]",
    '[title="t"]', "[title='t']", "[class^=x]", "[class~=y]", "[class*='x y']", "[class$=y]",
    "[lang|=en]", "[id=i]", "div [title]", "[title].x", "p:nth-child(2)", ":nth-child(even)",
    ":nth-child(n)", ":nth-child(n+2)", ":nth-child(-n+2)", "p:nth-child(2n)", "body > div > p",
    "div>p", "body>div .x", "b + p", "b+.x", "b ~ p", ":first-child + p", "div > b + p",
    "html body p", "html > body p", ":root p", "div:nth-child(1) > p", "div:first-child p",
]  # fmt: skip
SHOWING = [
    "p:not(.x)", "p:not(p)", ".x:not(.y)", ":not(b):not(p):not(i):not(div):not(body)", "[titles]",
    "[title=z]", "[class=x]", "[class^=y]", "[class$=x]", "[title*='']", "[lang|=e]", "[lang=en]",
    "p:nth-child(1)", ":nth-child(odd).x", "p:first-child", "p:nth-child(3n)", "body > p", "html > p",
    "i + p", "i ~ p", "p + b", "* html p", "*+html p", "div:nth-child(2) p", "p:hover", "p::before",
    "p:visited", "a:not(p", "p:nth-child()", "[title", "p > ", "> b", "b + + p",
]  # fmt: skip


def tokens_of(rule, text="Shown"):
    page = PAGE.format(rule=rule).replace("TEXT", text)
    return MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())


@pytest.mark.parametrize("rule", HIDING)
def test_rules_hide_the_elements_that_they_select(rule):
    assert {"hidden:Text"} <= set(tokens_of(rule, "Text"))


@pytest.mark.parametrize("rule", SHOWING)
def test_rules_hide_no_other_elements(rule):
    assert "Shown" in tokens_of(rule)


def test_the_body_is_the_parent_even_without_its_tag():
    page = "<style>body>p{display:none}</style><p>Concealed</p><div><p>Shown</p></div>"
    tokens = MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())
    assert {"hidden:Concealed", "Shown"} <= set(tokens)


def test_supports_not_is_no_rule_for_every_reader():
    page = "<style>@supports not (display:grid){p{display:none}}</style><p>Shown</p>"
    tokens = MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())
    assert "Shown" in tokens


@pytest.mark.parametrize("link", [
    "http://%65vil.example/", "http://evil%2Eexample/", "ht\ntp://evil.example", "http://e\tvil.example",
    "http://ｅｖｉｌ.example", "http://evil。example/%41", "h&#9;ttp://evil.example", "//%65vil.example/",
])  # fmt: skip
def test_hosts_of_links_are_those_that_browsers_open(link):
    page = f'Content-Type: text/html; charset=utf-8\n\n<a href="{link}">x</a>'
    assert "url:evil.example" in MailTokenizer().transform_one(page.encode())


@pytest.mark.parametrize("word", ["Ⓥⓘⓐⓖⓡⓐ", "🅥🅘🅐🅖🅡🅐", "⒱⒤⒜⒢⒭⒜", "🄥🄘🄐🄖🄡🄐", "🅅🄸🄰🄶🅁🄰"])
def test_enclosed_letters_make_words(word):
    message = f"Content-Type: text/plain; charset=utf-8\n\nBuy {word} now\n"
    assert word in MailTokenizer().transform_one(message.encode())
