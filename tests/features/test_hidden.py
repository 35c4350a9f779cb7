"""Text of HTML that readers do not see, and invisible characters."""

import html
import time
import tracemalloc

import numpy as np
import pytest

from streamnb import MailClassifier, MailTokenizer
from streamnb._core import hidden_spans
from streamnb.features.grams import WordPairs

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
    "<style>/* .y{{}} */ h6, .x, #z {{ font-size: 0 }}</style><div id=z>{}</div>",
    "<template>{}</template>",
    "<div style='color:hsl(0, 0%, 100%)'>{}</div>",
    "<div style='color:hsla(0,0%,0%,0)'>{}</div>",
    "<div style='color:rgb(0 0 0 / 0%)'>{}</div>",
    "<div style='color:rgba(0,0,0,0.01)'>{}</div>",
    "<div style='background:hsl(120deg 100% 50%)'><b style='color:lime'>{}</b></div>",
    "<div style='background:lime'><b style='color:hsl(.3333turn 100% 50%)'>{}</b></div>",
    "<div style='color:hwb(0 100% 0%)'>{}</div>",
    "<div style='background:linen;color:#faf0e6'>{}</div>",
    "<div style='mso-hide:all'>{}</div>",
    "<div style='opacity:.01'>{}</div>",
    "<div style='filter:alpha(opacity=0)'>{}</div>",
    "<div style='filter:opacity(0)'>{}</div>",
    "<div style='clip-path:circle(0)'>{}</div>",
    "<div style='clip-path: polygon(0 0, 0 0, 0 0)'>{}</div>",
    "<div style='transform:scale(0, 0)'>{}</div>",
    "<div style='margin:0 0 0 -9999px'>{}</div>",
    "<div style='text-indent:9999px;overflow:hidden'>{}</div>",
    "<div style='content-visibility:hidden'>{}</div>",
    "<div style='font-size:calc(0px)'>{}</div>",
    "<noframes>{}</noframes>",
    "<div style='d\\69 splay:none'>{}</div>",
    "<div style='display:n\\6f\\06e e'>{}</div>",
    "<span style='display:none'>a</b> {}</span>",
    "<p hidden>{}<p>",
    "<table><tr><td hidden>{}<td></table>",
    "<!-- {} -->",
    *(
        f"<style>{sheet}</style><section><em class='b a' id=i>{{}}</em></section>"
        for sheet in (
            "em{{display:none}}",
            "em.a{{display:none}}",
            "EM#i {{ DISPLAY : NONE }}",
            ".A{{display:none}}",
            ".a.b{{display:none}}",
            "section .a{{display:none}}",
            "section > .a{{display:none}}",
            "body section em{{display:none}}",
            "*.a{{display:none}}",
            "[class~='a']{{display:none}}",
            "em[id=i]{{display:none}}",
            ".a:not(.z){{display:none}}",
            "<!-- .a{{display:none}} -->",
            "@charset 'utf-8';@import url(x);.a{{display:none}}",
            "@media screen{{.a{{display:none}}}}",
            "@media all and (min-width:1px){{.a{{display:none}}}}",
            "@supports (color:red){{.a{{display:none}}}}",
            ".\\61{{display:none}}",
            ".a{{display:none",
            ".a{{color:#fff}}body{{background:white}}",
            "section{{background:navy}}.a{{color:navy}}",
            ".a{{font-size:1px}}",
            "#i{{display:none}}.a{{display:block}}",
            ".a{{display:none!important}}#i{{display:block}}",
            ".a{{visibility:hidden}}",
            ".a{{mso-hide:all}}",
        )
    ),
    "<em class=a>{}</em><style>.a{{display:none}}</style>",
    "<style>.a{{display:none!important}}</style><em class=a style='display:block'>{}</em>",
    # Elements that no reader shows, and what reaches to the end of the page
    "<title>{}</title>",
    "<head><title>{}</title></head>",
    "<title>a <b>{}</title>",
    "<iframe>{}</iframe>",
    "<noembed>{}</noembed>",
    *(
        f"<{tag}>{{}}</{tag}>"
        for tag in ("video", "audio", "dialog", "details", "meter", "progress", "rp", "desc")
    ),
    "<details><summary>shown</summary>{}</details>",
    # Colours
    "<div style='color:#fff'><p style='color:currentcolor'>{}</p></div>",
    "<div style='background:currentcolor'>{}</div>",
    "<div style='color:red;background-color:currentColor'>{}</div>",
    "<div style='-webkit-text-fill-color:transparent'>{}</div>",
    "<div style='color:oklch(1 0 0)'>{}</div>",
    "<div style='color:lab(100% 0 0)'>{}</div>",
    "<div style='color:color(srgb 1 1 1)'>{}</div>",
    "<div style='color:canvas'>{}</div>",
    "<div style='color:white;color:no-such'>{}</div>",
    "<font color=white><a href='http://a.example/' style='color:inherit'>{}</a></font>",
    "<font color=white><a name=x>{}</a></font>",
    "<table bgcolor=chucknorris><td><font color='#c00000'>{}</font></table>",
    "<font color=fffffg>{}</font>",
    # Custom properties
    "<div style='--x:none;display:var(--x)'>{}</div>",
    "<div style='--x:white'><p style='color:var(--x)'>{}</p></div>",
    "<div style='--x:white'><p style='--y:var(--x)'><b style='color: var( --y )'>{}</b></p></div>",
    "<div style='color:var(--no-such, white)'>{}</div>",
    "<div style='color:var(--a, var(--b, rgb(255, 255, 255)))'>{}</div>",
    "<div style='color:red;color:var(--x,#fff)'>{}</div>",
    # Gradients of one colour
    "<div style='background:linear-gradient(#fff,#fff);color:white'>{}</div>",
    "<div style='background-image:linear-gradient(to right, navy 0%, navy 100%);color:navy'>{}</div>",
    "<div style='background:radial-gradient(circle, rgb(0, 0, 9), #000010)'><font color=black>{}</font></div>",
    "<div style='background-image:linear-gradient(red,red);background-color:blue;color:red'>{}</div>",
    # Sizes and places
    "<div style='letter-spacing:-9999px'>{}</div>",
    "<div style='letter-spacing:-1em'>{}</div>",
    "<div style='text-indent:100%;white-space:nowrap;overflow:hidden'>{}</div>",
    "<div style='text-indent:-100vw'>{}</div>",
    "<div style='text-indent:calc(-1 * 9999px)'>{}</div>",
    "<div style='margin-left:calc(10px - 9999px)'>{}</div>",
    "<div style='font-size:min(0px, 1em)'>{}</div>",
    "<div style='font-size:1e-3px'>{}</div>",
    "<div style='font-size:.01em'>{}</div>",
    "<div style='font-size:2px'>{}</div>",
    "<div style='font-size:0'><p style='font-size:2em'>{}</p></div>",
    "<div style='font-size-adjust:0'>{}</div>",
    "<div style='line-height:0;overflow:hidden'>{}</div>",
    "<div style='max-height:1px;overflow:hidden'>{}</div>",
    "<div style='block-size:0;overflow:clip'>{}</div>",
    "<div style='position:absolute;inset:0 auto auto -9999px'>{}</div>",
    "<div style='clip:rect(0,0,0,0)'>{}</div>",
    "<div style='clip:rect(1px, 1px, 1px, 1px)'>{}</div>",
    "<div style='clip:rect(auto, 0px, auto, 0px)'>{}</div>",
    "<div style='clip-path:inset(0 100% 0 0)'>{}</div>",
    "<div style='clip-path:inset(50%)'>{}</div>",
    "<div style='clip-path:ellipse(0 50% at 50% 50%)'>{}</div>",
    "<div style='clip-path:polygon(0 0, 100% 0, 50% 0)'>{}</div>",
    "<div style='transform:translate(0,-9999px)'>{}</div>",
    "<div style='transform:rotateX(90deg)'>{}</div>",
    "<div style='rotate:x 90deg'>{}</div>",
    "<div style='rotate:.25turn y'>{}</div>",
    "<div style='mask:linear-gradient(to left, transparent, rgba(0,0,0,0))'>{}</div>",
    "<div style='-webkit-mask-image:radial-gradient(transparent,transparent)'>{}</div>",
    "<div style='transform:matrix(0,0,0,0,0,0)'>{}</div>",
    "<div style='scale:0'>{}</div>",
    "<div style='zoom:.01'>{}</div>",
    # Elements as browsers nest them
    "<p style='display:none' style='display:block'>{}</p>",
    "<p hidden><b>a <i>{}</i></b></p>",
    "<div popover>{}</div>",
    "<p><b hidden>a<div>{}</div></b>",
    "<table><tr hidden><td>a<td><p>{}</table>",
    "<table><td hidden><table><td>a</table></div>{}</table>",
    "<ul><li hidden><ul><li>a</ul>{}</ul>",
    "<span hidden>a<div>b</span> {}</div></span>",
    "<div hidden>a</xyz></span> {}</div>",
    # Attributes as browsers read them
    "<div title='<' hidden>{}</div>",
    "<div title='a>b' style='display:none'>{}</div>",
    "<div < hidden>{}</div>",
    "<div style='display:none!important;display:block'>{}</div>",
    "<div style='display:none;display:bogus'>{}</div>",
    "<div style='color:white;color:bogus'>{}</div>",
    "<div style='font-size:0;font-size:bogus'>{}</div>",
    "<div style='height:0;overflow:scroll'>{}</div>",
    "<div style='height:0;overflow:hidden;overflow:bogus'>{}</div>",
    "<div style='height:1px;width:1px;overflow:hidden'>{}</div>",
    "<div style='font-size:0q'>{}</div>",
    "<div style='font-size:.001in'>{}</div>",
    *(
        f"<style>{sheet}</style><section><em class='b a' id=i>{{}}</em></section>"
        for sheet in (
            ":root{{--x:#fff}}.a{{color:var(--x)}}",
            ":root .a{{display:none}}",
            "em:is(.a){{display:none}}",
            ":where(section) .a{{display:none}}",
            "@media not print{{.a{{display:none}}}}",
            "@media (width>=1px){{.a{{display:none}}}}",
            "@media (prefers-color-scheme:light),(prefers-color-scheme:dark){{.a{{display:none}}}}",
            "section{{.a{{display:none}}}}",
            "section{{color:red;& .a{{display:none}}}}",
            "em{{&.a{{display:none}}}}",
            ".a{{display:none;.c{{color:red}}}}",
            '.q{{content:"{{"}}.a{{display:none}}',
            ".q::after{{content:'}}'}}.a{{display:none}}",
            "html{{--x:none}}em{{display:var(--x)}}",
            "section{{--x:0}}.a{{font-size:var(--x)}}",
            "*{{--x:white}}.a{{color:var(--x)}}",
            ".a{{overflow:hidden}}.b{{max-height:0}}",
            ".a{{background:linear-gradient(white,white);color:white}}",
        )
    ),
    "<style>.a{{overflow:hidden}}</style><em class=a style='height:0'>{}</em>",
    "<style media=screen>.a{{display:none}}</style><em class=a>{}</em>",
]
TO_THE_END = ["<title>{}", "<iframe>{}", "<style>{}", "<!-- {}"]
SHOWING = [
    "<div style='font-size:0'><p style='font-size:14px'>{}</p></div>",
    "<div style='visibility:hidden'><p style='visibility:visible'>{}</p></div>",
    "<body bgcolor=black><font color=white>{}</font></body>",
    "<div style='background:#000'><a href='http://a.example/' style='color:#fff'>{}</a></div>",
    "<div style='background:url(x.png)'><font color=white>{}</font></div>",
    "<style>.a{{color:var(--no-such,#fff)}}</style><p class=a style='color:black'>{}</p>",
    "<style>p{{color:var(--no-such,#fff)}} .a{{color:black}}</style><p class=a>{}</p>",
    "<p style='color:#fffff'>{}</p>",
    "<style>.d{{background:#000}}</style><div class=d><font color=white>{}</font></div>",
    "<style>@media (max-width:9px){{.x{{display:none}}}}</style><div class=x>{}</div>",
    "<div aria-hidden=true>{}</div>",
    "<canvas>{}</canvas>",  # mail programs run no scripts, so there is no drawing
    "<div style='display:block;color:black'>{}</div>",
    "<div style='overflow:hidden;width:100%'>{}</div>",
    "<p style='display:none'>a</p>{}",
    "<br hidden>{}",
    "<ul><li hidden>a<li>{}</ul>",
    "<div style='margin-left:-5px'>{}</div>",
    "<font color=white><a href='http://a.example/'>{}</a></font>",
    "<div style='color:hsl(0,100%,50%)'>{}</div>",
    "<div style='mso-hide:none'>{}</div>",
    "<style>.a{{display:none}}</style><em class=a style='display:block'>{}</em>",
    "<style>td{{font-size:14px}}</style><table style='font-size:0'><td>{}</td></table>",
    "<style>td{{background:navy}}.w{{color:white}}</style><table><td><i class=w>{}</i></table>",
    "<style>body{{background:#000}}</style><body><font color=white>{}</font></body>",
    "<!-- <style>em{{display:none}}</style> --><em>{}</em>",
    *(
        f"<style>{sheet}</style><section><em class='b a' id=i>{{}}</em></section>"
        for sheet in (
            ".c{{display:none}}",
            "div .a{{display:none}}",
            "div > em{{display:none}}",
            ".a.c{{display:none}}",
            "img, .c, em.c{{display:none}}",
            ".a:hover{{display:none}}",
            ".a::before{{display:none}}",
            "@media print{{.a{{display:none}}}}",
            "@media (max-width:600px){{.a{{display:none}}}}",
            "@media (prefers-color-scheme:dark){{.a{{display:none}}}}",
            "@font-face{{font-size:0}}",
            ".a{{display:none}}.a{{display:block}}",
            ".a{{display:none}}#i{{display:inline}}",
            ".a{{background:linear-gradient(red,blue);color:white}}",
            ":root{{--x:none}}.a{{color:var(--x)}}",
            ".c{{--x:none}}.a{{display:var(--x)}}",
            "em:is(.c){{display:none}}",
            "@media not all{{.a{{display:none}}}}",
            "@media (width<=400px){{.a{{display:none}}}}",
            "div{{.a{{display:none}}}}",
            "em{{&.c{{display:none}}}}",
            ".a{{overflow:hidden}}.c{{max-height:0}}",
        )
    ),
    "<style media=print>.a{{display:none}}</style><em class=a>{}</em>",
    "<style>.a{{display:none!important}}</style><em class=a style='display:block!important'>{}</em>",
    "<p style='font-size:.9em'>{}</p>",
    "<p style='font-size:0.75rem'>{}</p>",
    "<p style='font:700 12px/1 Arial'>{}</p>",
    "<p style='text-indent:10em'>{}</p>",
    "<p style='position:relative;left:12em'>{}</p>",
    "<p style='letter-spacing:-.03em'>{}</p>",
    "<p style='text-indent:100%'>{}</p>",
    "<p style='margin-left:-50%'>{}</p>",
    "<p style='clip:rect(auto,100px,auto,0)'>{}</p>",
    "<p style='clip-path:inset(10px 20px)'>{}</p>",
    "<p style='transform:translate(-50%,-50%) scale(.9)'>{}</p>",
    "<p style='rotate:90deg'>{}</p>",
    "<p style='rotate:x 45deg'>{}</p>",
    "<p style='mask:linear-gradient(black,transparent)'>{}</p>",
    "<p style='mask:url(a.png),linear-gradient(transparent,transparent)'>{}</p>",
    "<p style='mask:none'>{}</p>",
    "<p style='line-height:1;overflow:hidden'>{}</p>",
    "<p style='color:currentcolor'>{}</p>",
    "<p style='color:var(--no-such)'>{}</p>",
    "<p style='--x:white;color:var(--x);color:black'>{}</p>",
    "<p style='background:linear-gradient(white,navy);color:white'>{}</p>",
    "<p style='background:white;background:linear-gradient(navy,navy);color:white'>{}</p>",
    "<p style='background-color:black;background-color:foo;color:white'>{}</p>",
    "<p style='background:black;background:foo bar;color:white'>{}</p>",
    "<p style='background:black;background:red foo;color:white'>{}</p>",
    "<p style='background:url(a.png) no-repeat center / cover, #000;color:white'>{}</p>",
    "<p style='-webkit-text-fill-color:red;-webkit-text-fill-color:foo;color:white'>{}</p>",
    "<p style='color:black;color:white black'>{}</p>",
    "<p hidden style='display:block'>{}</p>",
    "<p popover style='display:block'>{}</p>",
    "<span hidden style='display:inline'>{}</span>",
    "<p style='color:red' style='display:none'>{}</p>",
    "<p style='display:none'>a<section>{}</section>",
    "<p style='display:none'>a<b>b<fieldset>{}</fieldset>",
    "<h1 style='display:none'>a</h2>{}",
    "<table><tr style='display:none'><td>a<tbody><tr><td>{}</table>",
    "<table><thead hidden><tr><td><b>a<tbody><tr><td>{}</table>",
    "<table><tr hidden><td><p>a<tr><td>{}</table>",
    "<a style='display:none'>a<a>{}</a>",
    "<nobr hidden>a<nobr>{}</nobr>",
    "<button hidden>a<button>{}</button>",
    "<ul><li hidden><b>a<li>{}</ul>",
    "<details open>{}</details>",
    "<details><summary>{}</summary>a</details>",
    "<style type='text/foo'>em{{display:none}}</style><em>{}</em>",
    "<p data-x1hidden>{}</p>",
    "<p title='hidden'>{}</p>",
    "<p x1=hidden>{}</p>",
    "<title><!--</title>{}<p>-->",
    "<textarea><!--</textarea>{}<p>-->",
    "<textarea>a<p hidden>{}</textarea>",
    "<font color=white><a href='http://a.example/'><b>{}</b></a></font>",
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


@pytest.mark.parametrize("place", ["preamble", "epilogue"])
def test_long_text_around_the_parts_of_a_container_is_hidden(place):
    """Mail programs do not show it, so it must not cover the text of spam."""
    text = {place: "\n" + 40 * "secret words\n"}
    page = (
        "Content-Type: multipart/mixed; boundary=b\n{preamble}\n--b\n\nplain words\n--b--{epilogue}"
    )
    message = page.format_map({"preamble": "", "epilogue": "", **text}).encode()
    words, pairs = MailTokenizer().transform_one(message), WordPairs().transform_one(message)
    assert "hidden:secret" in words
    assert "secret" not in words
    assert "secret" not in pairs
    assert "plain" in pairs


def test_short_texts_around_the_parts_of_many_containers_are_hidden_like_a_long_one():
    container = (
        "--b\nContent-Type: multipart/mixed; boundary=c{0}\n\nsecret{0} words\n"
        "--c{0}\n\nplain words\n--c{0}--\n"
    )
    message = "Content-Type: multipart/mixed; boundary=b\n\n" + "".join(
        container.format(number) for number in range(100)
    )
    words = MailTokenizer().transform_one(f"{message}--b--\n".encode())
    assert "secret0" in words
    assert "hidden:secret99" in words
    assert sum(f"secret{number}" in words for number in range(100)) < 40


@pytest.mark.parametrize(
    ("page", "word", "is_hidden"),
    [
        ("<img alt='secret'>", "secret", False),
        ("<img alt='vi&aacute;gra &#97;nd'>", "viágra", False),
        ("<img style='display:none' alt='secret'>", "secret", True),
        ("<div style='display:none'><img alt='secret'></div>", "secret", True),
        ("<div title='secret' hidden>a</div>", "secret", True),
        ("<div title='secret'>a</div>", "secret", False),
        ("<div hidden>a</div><img alt='secret'>", "secret", False),
        ("<p>a<div hidden></div><b title='secret'>", "secret", False),
    ],
)
def test_texts_of_attributes_are_hidden_with_their_element(page, word, is_hidden):
    message = tokens(f"before {page} after")
    assert ({f"hidden:{word}", word} & set(message)) == {f"hidden:{word}" if is_hidden else word}


@pytest.mark.parametrize(
    "link",
    [
        "http://evil.example/x", " http://evil.example", "//evil.example/y", "http:\\\\evil.example",
        "https:evil.example", "HTTP:/evil.example", "http:///evil.example", "www.evil.example",
        "ftp://evil.example", "&#104;ttp://evil.example",
    ],
)  # fmt: skip
def test_host_of_a_link_is_that_to_which_browsers_go(link):
    assert "url:evil.example" in tokens(f"<a href='{link}'>x</a>")


@pytest.mark.parametrize(
    "link",
    [
        "https://eur01.safelinks.protection.example/?url=https%3A%2F%2Fwww.evil.example%2Fpath%2Fx&data=04%7C",
        "https://urldefense.example/v2/url?u=https-3A__www.evil.example_path_x-2Dy&d=DwMF",
        "https://urldefense.example/v3/__https://www.evil.example/path__;!!abc$",
        "https://search.example/url?q=http://www.evil.example/path&sa=D",
        "http://rd.example/x/*http://ann@www.evil.example:80/path",
        "https://a.example/?r=http%253A%252F%252FWWW.evil.example%252Fpath",
        "https://a.example/?r=http%3a%2f%2fb.example&s=HTTPS%3a%2F%2fwww.evil.example%2fpath",
    ],
)  # fmt: skip
def test_target_of_a_redirect_is_read_as_its_plain_address(link):
    target = {"url:www.evil.example", "url:evil.example", "url:example"}
    assert target <= set(tokens(f"<a href='{link.replace('&', '&amp;')}'>x</a>"))
    text = set(tokens(f"see {link} now"))
    assert target | {"see", "now"} <= text
    assert {"url:path", "url:path__"} & text


@pytest.mark.parametrize("link", ["/evil.example/y", "mailto:a@evil.example", "evil.example", "#x"])
def test_links_without_a_host_have_none(link):
    assert "url:evil.example" not in tokens(f"<a href='{link}'>x</a>")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("vi&aacutegra", "viágra"), ("vi&aacute;gra", "viágra"), ("vi&#225;gra", "viágra"),
        ("na&#154;e", "naše"), ("na&#x9a;e", "naše"), ("a&ltb", "a"), ("a&nosuch;b", "nosuch"),
    ],
)  # fmt: skip
def test_character_references_are_read_as_browsers_do(reference, text):
    assert text in tokens(f"<p>{reference}</p>")


# A value that hides text, another one of the same property that shows it, and an invalid one.
CHANGED = [
    ("opacity:0", "opacity:1", "opacity:1px"),
    ("zoom:0", "zoom:normal", "zoom:big"),
    ("scale:0", "scale:1", "scale:1px"),
    ("text-indent:-9999px", "text-indent:0", "text-indent:auto"),
    ("text-indent:100%;overflow:hidden", "text-indent:2em", "text-indent:none"),
    ("letter-spacing:-1em", "letter-spacing:normal", "letter-spacing:auto"),
    ("clip:rect(0,0,0,0)", "clip:auto", "clip:none"),
    ("clip-path:inset(100%)", "clip-path:none", "clip-path:auto"),
    ("transform:scale(0)", "transform:none", "transform:auto"),
    ("translate:-9999px", "translate:none", "translate:auto"),
    ("rotate:y 90deg", "rotate:none", "rotate:auto"),
    ("filter:opacity(0)", "filter:none", "filter:auto"),
    ("mask-image:linear-gradient(transparent,transparent)", "mask:none", "mask:auto"),
    ("content-visibility:hidden", "content-visibility:visible", "content-visibility:shown"),
    ("margin-left:-9999px", "margin:0 auto", "margin:0 1px 2px none"),
    ("position:absolute;left:-9999px", "left:1.5em", "left:1.em"),
    ("position:absolute;top:-9999px", "inset:0 auto", "inset:none"),
    ("height:0;overflow:hidden", "height:auto", "height:-1px"),
    ("max-width:0;overflow:hidden", "max-width:none", "max-width:auto"),
    ("line-height:0;overflow:hidden", "line-height:1.5", "line-height:auto"),
    ("height:0;overflow:hidden", "overflow:visible", "overflow:shown"),
    ("display:none", "display:block", "display:shown"),
    ("visibility:hidden", "visibility:visible", "visibility:shown"),
    ("font-size:0", "font-size:1em", "font-size:bogus(1em)"),
    ("color:white", "color:black", "color:bogus(black)"),
    ("background:black;color:black", "background-color:red", "background-color:bogus(red)"),
]
OVERRIDES = [
    "<p style='{0};{1}'>word</p>",
    "<style>.x{{{0}}} .x{{{1}}}</style><p class=x>word</p>",
    "<style>.x{{{0}}}</style><p class=x style='{1}'>word</p>",
    "<style>#i{{{1}}} .x{{{0}}}</style><p class=x id=i>word</p>",
    "<style>.x{{{0}}} p{{{1}!important}}</style><p class=x>word</p>",
    "<style>p{{{1}!important}}</style><p style='{0}'>word</p>",
    "<style>p{{--a:{2}}} .x{{{0}}} p.x{{{3}:var(--a)}}</style><p class=x>word</p>",
]


def has_shown_word(page):
    tokens = MailTokenizer().transform_one(HEAD + page.encode())
    assert ("word" in tokens) != ("hidden:word" in tokens)
    return "word" in tokens


@pytest.mark.parametrize("override", OVERRIDES)
@pytest.mark.parametrize(("hiding", "showing", "invalid"), CHANGED)
def test_the_strongest_valid_declaration_decides(override, hiding, showing, invalid):
    for declaration, is_shown in ((showing, True), (invalid, False)):
        name, _, value = declaration.partition(":")
        assert has_shown_word(override.format(hiding, declaration, value, name)) is is_shown
    if "!important" not in override and "--a" not in override and "#i" not in override:
        assert not has_shown_word(override.format(showing, hiding))


@pytest.mark.parametrize("selectors", [".x,", ",.x", ".x,,p", ".x, ,p", ","])
def test_a_list_with_an_empty_selector_has_no_effect(selectors):
    page = "<style>.x{display:none} %s{display:block}</style><p class=x>word</p>"
    assert not has_shown_word(page % selectors)


@pytest.mark.parametrize("page", TO_THE_END)
def test_element_without_an_end_hides_all_that_follows(page):
    message = tokens("before " + page.format("secret words"))
    assert {"hidden:secret", "hidden:words", "before"} <= set(message)
    assert "secret" not in message


@pytest.mark.parametrize("page", SHOWING)
def test_shown_text_is_text(page):
    message = tokens(page.format("plain words"))
    assert {"plain", "words"} <= set(message)
    assert "plain" in WordPairs().transform_one(HEAD + page.format("plain words").encode())


@pytest.mark.parametrize(
    "tag", ["b", "xyz", "mark", "label", "wbr", "o:p", "time", "style", "link"]
)
def test_tags_within_a_line_do_not_split_words(tag):
    assert tokens(f"now via<{tag}></{tag}>gra")["viagra"] == 1


@pytest.mark.parametrize("tag", ["br", "div", "img", "td", "li", "section", "hr", "input"])
def test_tags_between_lines_split_words(tag):
    assert {"via", "gra"} <= set(tokens(f"now via<{tag}>gra"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("\U0001d415\U0001d422\U0001d41a\U0001d420\U0001d42b\U0001d41a", "Viagra"),
        ("V&#x1d422;agra", "Viagra"),
        ("\U0001d5e1\U0001d5f2wer", "Newer"),
        ("x1\U0001d7d2", "x14"),
        ("\uff36\uff49\uff41\uff47\uff52\uff41", "Viagra"),
        ("QQ\uff11\uff12\uff13", "QQ123"),
    ],
)
def test_styled_letters_are_read_as_plain_letters(text, word):
    assert word in tokens(f"see {text} now")
    folded = MailTokenizer(part="body", casefold=True).transform_one(HEAD + text.encode())
    assert word.lower() in folded


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("pr\u064bofi\u0365le", "profile"),
        ("V\u0336i\u0336a\u0336g\u0336r\u0336a\u0336", "Viagra"),
        ("fa\u0652\u200b\u0301cebook", "facebook"),
        ("cafe\u0301", "café"),
        ("हिन्दी", "हिन्दी"),
        ("ɔ\u0300kan", "ɔ\u0300kan"),
    ],
)
def test_marks_that_do_not_compose_are_left_out_of_latin_words(text, word):
    assert word in tokens(f"see {text} now")
    assert word.casefold() in MailTokenizer(part="body", casefold=True).transform_one(
        HEAD + text.encode()
    )


@pytest.mark.parametrize(
    ("text", "is_mixed"),
    [
        ("p\u0430ypal", True),
        ("\u0430ppl\u0435", True),
        ("привет paypal", False),
        ("10\u00b5m", False),
    ],
)
def test_words_of_two_scripts_are_evidence(text, is_mixed):
    message = tokens(f"see {text} now")
    assert ("hidden:scripts" in message) == is_mixed
    assert set(text.split()) <= set(message)


@pytest.mark.parametrize(
    ("text", "is_overridden"),
    [
        ("\u202eargaiv\u202c", True),
        ("invoice\u202efdp.exe", True),
        ("\u202b\u05e9\u05dc\u05d5\u05dd\u202c", False),
    ],
)
def test_characters_that_override_the_direction_are_evidence(text, is_overridden):
    assert ("hidden:direction" in tokens(f"see {text} now")) == is_overridden


def test_hidden_texts_of_two_places_are_two_words():
    page = "V<b style='font-size:0'>one</b>i<b hidden>t<i>w</i>o</b>a<i hidden>three</i>gra"
    assert {"Viagra", "hidden:one", "hidden:two", "hidden:three"} <= set(tokens(page))


@pytest.mark.parametrize(
    "end", ["。后面", "，后面", "）后面", "\u3000后面", "” hi", "\u00a0hi", "…"]
)
@pytest.mark.parametrize("path", ["", "/", "/path"])
def test_an_address_ends_at_punctuation_of_any_language(path, end):
    message = tokens(f"请看http://evil.example{path}{end} plain")
    assert {"url:evil.example", "plain"} <= set(message)
    assert not path[1:] or "url:path" in message
    assert not any("后" in token and token.startswith("url:") for token in message)


@pytest.mark.parametrize("character", ["\u200b", "\u00ad", "\ufeff", "\u2060", "\u200d", "\ufe0f"])
def test_invisible_characters_are_no_part_of_a_host(character):
    assert "url:evil.example" in tokens(f"<a href='http://ev{character}il.example/x'>x</a>")


@pytest.mark.parametrize(
    "display", ["block", "BLOCK !important", "flex", "list-item", "table-cell", "-webkit-box"]
)
@pytest.mark.parametrize(
    "page",
    [
        '<i style="display:{}">via</i>gra',
        'via<i style="display:{}">gra</i>',
        "<style>.x{{display:{}}}</style><i class=x><b>via</i>gra",
        'via<a href="#" title="" style="color:red;display:{}">gra</a>',
    ],
)
def test_elements_with_the_style_of_a_block_split_words(page, display):
    assert {"via", "gra"} <= set(tokens(page.format(display)))


@pytest.mark.parametrize("display", ["inline", "inline-block", "contents", "blok", "inherit"])
def test_elements_with_the_style_of_text_do_not_split_words(display):
    page = f'via<i style="display:block;display:{display}">gra</i>'
    assert ("viagra" in tokens(page)) == (display != "blok")


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


@pytest.mark.parametrize(
    "sheet",
    [b",.a" * 4_000 + b"{" + b"color:red;b{}" * 3_000 + b"}",
     b"a" * 30_000 + b"{" + b"," * 30_000 + b"{color:red}}",
     b"a" * 30_000 + b"{" + b"&" * 20_000 + b"{color:red}}",
     b"a" * 190 + b"{" + b"&," * 20_000 + b"{color:red}}"],
    ids=["declarations between rules", "a list in a long selector", "&", "a list of &"],
)  # fmt: skip
def test_rules_in_rules_take_bounded_memory(sheet):
    tracemalloc.start()
    hidden_spans(b"<style>" + sheet + b"</style>text")
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    ["va &betab c", "va&beta b", "va&beta;b", "q&notit r", "q&notin;r", "&times2 z", "&AMP;x&ampy",
     "a&#x;b", "a&#;b", "a&#65b", "&nbspx y", "&CounterClockwiseContourIntegral;z", "caf&eacute bar",
     "&Aacutex", "&amp;lt;b&gt; c", "&bogus; w", "&abreve x", "x & y", "&"],
)  # fmt: skip
def test_references_of_text_are_those_of_the_standard_library(text):
    plain = b"Content-Type: text/plain; charset=utf-8\n\n" + html.unescape(text).encode()
    tokenizer = MailTokenizer(part="body")
    kinds = ("content-type:", "type:", "charset:")

    def words(raw):
        return {token for token in tokenizer.transform_one(raw) if not token.startswith(kinds)}

    assert words(HEAD + text.encode()) == words(plain)


def test_parameters_of_links_are_not_references():
    link = "http://x.example/?a=1&region=2&section=3&copy=4&times5&lt;b&eacute;"
    assert {"url:region", "url:section", "url:copy", "url:times5"} <= set(
        tokens(f"<a href='{link}'>go</a>")
    )
    assert "ion" in tokens("a &region of text")  # where it is one


@pytest.mark.parametrize(
    ("page", "hidden_text"),
    [
        ("<i a=Qb>c<p hidden>d</p>", ["d"]),  # the value is Qb
        ("<i a=Qb>cQ hidden>d</i>", ["d"]),
        ("<i a=Qb>c<u a=Qd>e<p hidden>f</p>", ["f"]),  # the value is b>c<u a=
        ("<i a=Qb>cQ>d<u a=Qe>f<p hidden>g</p>h<u a=Qi hidden>j", ["j"]),
        ("<i a=RbQ>c<u a=Qd>e<p hidden>f</p>", ["f"]),
    ],
)
@pytest.mark.parametrize("quotes", ["\"'", "'\""])
def test_quoted_value_without_an_end_is_unquoted(page, hidden_text, quotes):
    page = page.replace("Q", quotes[0]).replace("R", quotes[1])
    spans = np.frombuffer(hidden_spans(page.encode()) or b"", np.int64).reshape(-1, 2)
    assert [page[start:end] for start, end in spans.tolist()] == hidden_text


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
     b"<p style='width:" + b"0" * 1_900 + b"x'>",
     b"<style>" + b".a p,.a{color:red}" * 3_000 + b"</style>" + b"<p class=a>" * 3_000,
     b"<style>" + b"@media all{" * 5_000 + b".a{color:red}}" * 5_000 + b"</style>",
     b"<style>a:not(" + b"(" * 60_000 + b"{color:red}</style>", b"<style>p{color:red}</style><p class=a>",
     b"<p style='color:" + b"var(--a," * 200 + b"'>", b"<p style='--a:var(--a)var(--a);color:var(--a)'>",
     b"<p style='--a:" + b"()" * 90 + b";color:var(--a," + b"()" * 90 + b"'>",
     b"<p style='clip:" + b"a" * 1_900 + b"'>", b"<p style='width:" + b"calc(" * 300 + b"'>",
     b"<p style='background:" + b"rgb(" * 400 + b"'>", b"<p a='", b'<p a="', b"<title>", b"<p a=b/"],
)  # fmt: skip
@pytest.mark.performance
def test_hidden_text_takes_linear_time(page):
    started = time.process_time()
    for _ in range(2):
        hidden_spans(page * (1 + (1 << 19) // len(page)))
    assert time.process_time() - started < 10
