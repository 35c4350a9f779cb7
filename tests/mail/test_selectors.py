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
    "html body p", "html > body p", ":root p", "*+p", "* ~ p", "b+*", "p:nth-child(2n\n+\t2)", "p:nth-child(n\t+ 2)", "div:nth-child(1) > p", "div:first-child p",
    "p:first-of-type", "div > p.x:first-of-type", "i:First-Of-Type, p:nth-of-type( 1 )", "b ~ p:first-of-type",
    ":is(.q,.x)", "div :where(#j, p)", "p:not(.q, #j)", "div :is(b,p):not(b,i)", "a:is(.q,.r),:is([title], b)",
    "div :is(.x,.z):is(.y,.z):not(.q,.r)", "body :where(.q,div,.r) > p",
    ":is(.x)", "div :where(p)", "b, div>:is( #i ):not(b)", "[title='q,r'],p", "b:not(:is(.q), b),p", 'a[title="],"],p',
]  # fmt: skip
SHOWING = [
    "p:not(.x)", "p:not(p)", ".x:not(.y)", ":not(b):not(p):not(i):not(div):not(body)", "[titles]",
    "[title=z]", "[class=x]", "[class^=y]", "[class$=x]", "[title*='']", "[lang|=e]", "[lang=en]",
    "p:nth-child(1)", ":nth-child(odd).x", "p:first-child", "p:nth-child(3n)", "body > p", "html > p",
    "i + p", "i ~ p", "p + b", "* html p", "*+html p", "div:nth-child(2) p", "p:hover", "p::before",
    "p:visited", "*+b", "*~div", "p:nth-child(2n +\n1)", "a:not(p", "p:nth-child()", "[title", "p > ", "> b", "b + + p",
    "p:not(:first-of-type)", ".y:first-of-type", ":first-of-type", "p:nth-of-type(2)", "p:last-of-type", "div:first-of-type b",
    ".z:is(.x,.y)", "p:not(.q,.x)", ":is(.q,.r) p", "b:is(.x,p)", ":is(,) p", "p:not(.q,)", "p:is(.x,.y", "p:is(.x,.y)z",
    "h:is(1)", ".x:is(-y)", ".x:is(y)", ":is(p)re", ":is(.x)y", "b:not(:is(.q), p, .r)", "b:is(:not(.a), p, .q)", "[title='x,p,y']",
    "div :not(:nth-child(7), p, .r)", "b:is(b, p", "b[title='b, p", "b:not(b, p, (", "[title=':is(.x),p']",
]  # fmt: skip


def tokens_of(rule, text="Shown"):
    page = PAGE.format(rule=rule).replace("TEXT", text)
    return MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())


@pytest.mark.parametrize("rule", HIDING)
def test_rules_hide_the_elements_that_they_select(rule):
    assert {"hidden:Text"} <= set(tokens_of(rule, "Text"))


@pytest.mark.parametrize(
    ("rule", "is_hidden"),
    [
        ("div,.q{.x,.z", True), ("div{& .x,.q", True), (".q,body{div,.q{& > .x", True),
        (".q,.r{.x,.y", False), ("div,.q{.z,&.x", False),
    ],
)  # fmt: skip
def test_lists_in_nested_rules_are_combined(rule, is_hidden):
    tokens = tokens_of(rule, "Text")
    assert ("hidden:Text" in tokens) == is_hidden


@pytest.mark.parametrize("rule", SHOWING)
def test_rules_hide_no_other_elements(rule):
    assert "Shown" in tokens_of(rule)


def test_the_body_is_the_parent_even_without_its_tag():
    page = "<style>body>p{display:none}</style><p>Concealed</p><div><p>Shown</p></div>"
    tokens = MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())
    assert {"hidden:Concealed", "Shown"} <= set(tokens)


@pytest.mark.parametrize(
    ("rule", "page", "shown_word"),
    [
        ("p:nth-child(2)", "<p>Shown</p><p>Concealed</p>", "Shown"),
        ("p:first-of-type", "<i>x</i><p>Concealed</p><p>Shown</p>", "Shown"),
        ("p:first-of-type", "<p>Concealed</p><div><b>Shown</b></div><b>x</b>", "Shown"),
        ("b:first-of-type", "<p>y</p><div><p><b>Concealed</b></p><i>x</i> Shown</div>", "Shown"),
        ("p:first-child", "<p>Concealed</p><p>Shown</p>", "Shown"),
        ("*+p", "<p>Shown</p><p>Concealed</p>", "Shown"),
        ("style~p", "<p>Shown</p>", "Shown"),
        ("style+p", "<p>Shown</p>", "Shown"),
        ("html>p", "<p>Shown</p>", "Shown"),
        ("body>p", "<p>Concealed</p><div><p>Shown</p></div>", "Shown"),
        ("html>body", "<body><p>Concealed</p></body>", ""),
    ],
)
@pytest.mark.parametrize("start", ["", "<head>", "<html>", "<html><head><title>x</title></head>"])
def test_body_without_its_tag_begins_at_the_first_visible_element(rule, page, shown_word, start):
    page = f"{start}<style>{rule}{{display:none}}</style>{page}"
    tokens = set(MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode()))
    assert (shown_word in tokens) == bool(shown_word)
    assert ("hidden:Concealed" in tokens) == ("Concealed" in page)
    assert "Concealed" not in tokens


# Rules, a page, and whether a browser hides the word of the page.
ESCAPED = [
    (r".c{display:none}.show\:block{display:block}", "<p class='c show:block'>{}</p>", False),
    (r".c{display:none}.\!block{display:block!important}", "<p class='c !block'>{}</p>", False),
    (r".a\,b{display:none}", "<b>{}</b>", False),
    (r".a\.b{display:none}", "<p class='a b'>{}</p>", False),
    (r".a\ b{display:none}", "<p class=a><b>{}</b></p>", False),
    (r".a\>b{display:none}", "<p class=a><b>{}</b></p>", False),
    (r"p{display:none\9}", "<p>{}</p>", False),
    (r"p{color:#fff\9;color:#fff\0/}", "<p>{}</p>", False),
    ("[title=A]{display:none}", "<p title=a>{}</p>", False),
    ("[title=A]{display:none}", "<p title=A>{}</p>", True),
    ("[TITLE=A i]{display:none}", "<p title=a>{}</p>", True),
    ("[title=A s]{display:none}", "<p title=a>{}</p>", False),
    ("[align=LEFT]{display:none}", "<p align=left>{}</p>", True),
    ("P:Nth-Child(1){DISPLAY:None}", "<div><p>{}</p></div>", True),
    ("@MEDIA Screen{P{DISPLAY:None}}", "<p>{}</p>", True),
    (r".a\.b{display:none}", "<p class='a.b'>{}</p>", True),
    (r".sm\:w-full{display:none}", "<p class='sm:w-full'>{}</p>", True),
    (r".w-\[0px\]{display:none}", "<p class='w-[0px]'>{}</p>", True),
    (r"[class='a\:b']{display:none}", "<p class='a:b'>{}</p>", True),
    (r".\31 0{display:none}", "<p class=10>{}</p>", True),
    (r".caf\e9{display:none}", "<p class=café>{}</p>", True),
    (r"p{d\49splay:none}", "<p>{}</p>", True),
    (r".\}a{color:red}p{display:none}", "<p>{}</p>", True),
    (r"/* \*/p{display:none}/* */", "<p>{}</p>", True),
    ("p{dis/**/play:none}", "<p>{}</p>", False),
    ("p{display:no/* */ne}", "<p>{}</p>", False),
    ("p{dis/**//**/play:none}", "<p>{}</p>", False),
    ("p{color:#fff}p{color:#/**/fff}", "<p>{}</p>", True),
    ("p{color:#/**/fff}", "<p>{}</p>", False),
    ("p{color:rgb/**/(255,255,255)}", "<p>{}</p>", False),
    ("p{font-size:0/**/%}", "<p>{}</p>", False),
    ("@media screen and/**/(min-width:1px){p{display:none}}", "<p>{}</p>", True),
    ("p{/**/display/**/:/**/none/**/}/**/", "<p>{}</p>", True),
    ("p/**/.a/**/.b/**/{display:none}", "<p class='a b'>{}</p>", True),
    ("p{}", "<p style='dis/**/play:none'>{}</p>", False),
    ("p{}", "<p style='/**/display:none/**/'>{}</p>", True),
]


@pytest.mark.parametrize(("rules", "page", "is_hidden"), ESCAPED)
def test_escapes_and_case_in_rules_are_those_of_browsers(rules, page, is_hidden):
    html = f"<style>{rules}</style>{page.format('Word')}"
    message = f"Content-Type: text/html; charset=utf-8\n\n{html}"
    tokens = set(MailTokenizer().transform_one(message.encode()))
    assert tokens & {"Word", "hidden:Word"} == ({"hidden:Word"} if is_hidden else {"Word"})


@pytest.mark.parametrize(
    ("element", "is_hidden"),
    [
        ("<input type=checkbox id=c checked>", False),
        ("<input type=radio id=c CHECKED=''>", False),
        ("<input type=checkbox id=c>", True),
        ("<p id=c checked></p>", True),
    ],
)
@pytest.mark.parametrize("selector", ["#c:checked~.t", "#c:Checked + p", "input:checked~p"])
def test_checked_inputs_show_and_hide_their_neighbours(element, is_hidden, selector):
    rules = f"<style>.t{{display:none}}{selector}{{display:block!important}}</style>"
    page = f"Content-Type: text/html\n\n{rules}{element}<p class=t>Word</p>"
    tokens = set(MailTokenizer().transform_one(page.encode()))
    assert tokens & {"Word", "hidden:Word"} == ({"hidden:Word"} if is_hidden else {"Word"})
    reverse = page.replace(".t{display:none}", "").replace("block!important", "none")
    tokens = set(MailTokenizer().transform_one(reverse.encode()))
    assert tokens & {"Word", "hidden:Word"} == ({"Word"} if is_hidden else {"hidden:Word"})


@pytest.mark.parametrize(
    "rule", ["[data-x]", "b:first-child", "td:nth-child(2n)", "b+b", "b~b", "b>b"]
)
def test_rules_about_other_elements_do_not_use_up_the_comparisons(rule):
    rules = f"{rule}{{color:red}}.pre{{display:none}}"
    rules += "".join(f"td{{color:#000{number}}}" for number in range(100, 140))
    cells = "".join(f"<td title='Item {number}'>x</td>" for number in range(2000))
    page = f"<style>{rules}</style><table><tr>{cells}</table><p class=pre>Concealed</p>"
    tokens = MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())
    assert "hidden:Concealed" in tokens


@pytest.mark.parametrize("condition", [
    "not (display:grid)", "(not (display:grid))", "((display:grid) and (not (color:red)))",
    "(no-such:grid)", "((display:grid) and (no-such:a))", "selector(:no-such)", "(-x-any:a) or (a:b)",
])  # fmt: skip
def test_a_rule_that_not_all_programs_support_is_ignored(condition):
    page = f"<style>@supports {condition}{{p{{display:none}}}}</style><p>Shown</p>"
    tokens = MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode())
    assert "Shown" in tokens


@pytest.mark.parametrize("link", [
    "http://%65vil.example/", "http://evil%2Eexample/", "ht\ntp://evil.example", "http://e\tvil.example",
    "http://ｅｖｉｌ.example", "http://evil。example/%41", "h&#9;ttp://evil.example", "//%65vil.example/",
])  # fmt: skip
def test_hosts_of_links_are_those_that_browsers_open(link):
    page = f'Content-Type: text/html; charset=utf-8\n\n<a href="{link}">x</a>'
    assert "url:evil.example" in MailTokenizer().transform_one(page.encode())


@pytest.mark.parametrize("page", [
    "<style>@import url('http://evil.example/a.css');</style>",
    "<style>@import '//evil.example/a.css';</style>",
    "<style type=text/css>.a{background:URL( \"https://evil.example/a.png\" )}</style>",
    "<p style='background:url(//evil.example/a.png)'>x",
    "<p style='background-image:url(&quot;http://evil.example/a.png&quot;)'>x",
    "<img srcset='a.png 1x, //evil.example/a.png 2x'>",
])  # fmt: skip
def test_hosts_of_style_sheets_are_those_of_links(page):
    tokens = MailTokenizer().transform_one(b"Content-Type: text/html\n\n" + page.encode())
    assert {"url:evil.example", "url:example"} <= tokens.keys()
    assert not {"url:import", "url:quot", "import"} & tokens.keys()


@pytest.mark.parametrize(
    "text", ["<style>/* a // b */ .c{}</style>", "<p style='a:b //c.example'>x"]
)
def test_slashes_in_styles_are_no_links(text):
    tokens = MailTokenizer().transform_one(b"Content-Type: text/html\n\n" + text.encode())
    assert not [token for token in tokens if token.startswith("url:")]


def test_annotations_of_ruby_are_words_of_their_own():
    page = "<ruby>kanji<rp>(</rp><rt>reading</rt><rp>)</rp></ruby>after"
    tokens = MailTokenizer().transform_one(b"Content-Type: text/html\n\n" + page.encode())
    assert {"kanji", "reading", "after"} <= tokens.keys()


@pytest.mark.parametrize("escape", ["%2F", "%2f", "%3F", "%23", "%5C", "%40", "%EF%BC%8F"])
def test_escaped_delimiters_do_not_end_the_host(escape):
    page = f'Content-Type: text/html\n\n<a href="http://bank.example{escape}@evil.example/x">x</a>'
    tokens = MailTokenizer().transform_one(page.encode())
    assert "url:evil.example" in tokens
    assert "url:bank.example" not in tokens


@pytest.mark.parametrize(
    "link", ["%2F%2Fbank.example/x", "http://bank.example%2Fevil/", "/%2Fbank.example"]
)
def test_links_without_a_valid_host_have_no_other(link):
    tokens = MailTokenizer().transform_one(
        f'Content-Type: text/html\n\n<a href="{link}">x</a>'.encode()
    )
    assert "url:bank.example" not in tokens


@pytest.mark.parametrize("word", ["Ⓥⓘⓐⓖⓡⓐ", "🅥🅘🅐🅖🅡🅐", "⒱⒤⒜⒢⒭⒜", "🄥🄘🄐🄖🄡🄐", "🅅🄸🄰🄶🅁🄰"])
def test_enclosed_letters_make_words(word):
    message = f"Content-Type: text/plain; charset=utf-8\n\nBuy {word} now\n"
    assert word in MailTokenizer().transform_one(message.encode())


@pytest.mark.parametrize("sign", ["🇫🇷", "🅿", "Ⓡ", "🅿️"])
@pytest.mark.parametrize("word", ["Paris", "gratis7", "Größe", "Привет"])
def test_enclosed_letters_beside_a_word_are_not_part_of_it(sign, word):
    message = f"Content-Type: text/plain; charset=utf-8\n\n{word}{sign} {sign}{word[::-1]}\n"
    assert {word, word[::-1]} <= set(MailTokenizer().transform_one(message.encode()))
