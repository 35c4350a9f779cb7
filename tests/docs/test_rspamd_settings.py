"""The guide to Rspamd without Rspamd: its blocks parse, its options exist, its patterns match our field."""

import re
import subprocess
from pathlib import Path

import pytest

from streamnb import MailTokenizer
from streamnb.mailbox.service.response import Response, header_field

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "rspamd.md").read_text(encoding="utf-8")
# The options of each file that Rspamd 3.4 to 3.13 document, and their types.
OPTIONS = {
    "multimap.conf": {"type": str, "header": str, "map": str, "regexp": bool, "score": float},
    "statistics_group.conf": {"weight": float},
    "milter_headers.conf": {"use": list},
}
PAIR = re.compile(r'\s*(\w+) = (".*?"|\[.*?\]|[\w.-]+);')
SECTION = re.compile(r'\s*"?(\w+)"? \{')


def parse(text, position=0):
    """Return the pairs and sections of a configuration, and where it ends (a part of UCL)."""
    result = {}
    while text[position:].strip() not in ("", "}"):
        if match := PAIR.match(text, position):
            value = match[2].strip('"')
            if match[2][0] == "[":
                value = re.findall(r'"(.*?)"', match[2])
            elif match[2][0] != '"':
                value = {"true": True, "false": False}.get(value) or float(value)
            result[match[1]] = value
            position = match.end()
        elif match := SECTION.match(text, position):
            result[match[1]], position = parse(text, match.end())
            position = re.compile(r"\s*\}").match(text, position).end()
        else:
            break
    return result, position


def configuration(name):
    """Return the configuration that the guide has for a file of Rspamd."""
    text = re.search(rf"{re.escape(name)}`.*?```nginx\n(.*?)```", GUIDE, re.S)[1]
    result, end = parse(text)
    assert text[end:].strip() == ""
    return result


def options(section):
    for name, value in section.items():
        yield from options(value) if isinstance(value, dict) else [(name, value)]


@pytest.mark.parametrize("name", ["multimap.conf", "statistics_group.conf"])
def test_options_exist_and_have_the_right_type(name):
    pairs = list(options(configuration(name)))
    assert pairs
    assert all(type(value) is OPTIONS[name][option] for option, value in pairs)


def test_the_setting_in_the_text_exists():
    (line,) = re.findall(r"`(use = .*?;)` in\s+`local\.d/milter_headers\.conf`", GUIDE)
    ((name, value),) = parse(line)[0].items()
    assert (OPTIONS["milter_headers.conf"][name], value) == (list, ["x-spamd-result"])


def test_each_map_matches_the_verdicts_of_its_class():
    marks = {"S": "STREAMNB_SPAM", "H": "STREAMNB_HAM"}
    for mark in ("S", "H", "U", "spam", "Hamburg", "work"):
        name, _, value = header_field(Response(mark, 0, 1.5, mark, 0.9, [])).partition(": ")
        symbols = []
        for symbol, rule in configuration("multimap.conf").items():
            assert (rule["type"], rule["header"], rule["regexp"]) == ("header", name, True)
            file = rule["map"].removeprefix("$LOCAL_CONFDIR/")
            text = re.search(rf"/etc/rspamd/{file}`:\n\n```text\n/(.*)/\n```", GUIDE)[1]
            symbols += [symbol] * bool(re.search(text, value))
        assert symbols == ([marks[mark]] if mark in marks else [])


def test_scores_have_the_sign_of_the_class():
    rules = configuration("multimap.conf")
    assert rules["STREAMNB_SPAM"]["score"] > 0 > rules["STREAMNB_HAM"]["score"]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(X-[\w-]+)", GUIDE))))
def test_no_verdict_is_learned(name):
    """streamnb ignores Rspamd's verdicts and its own."""
    mails = [b"Subject: lunch\n\nnoon\n", b"%s: Yes, score=9\nSubject: lunch\n\nnoon\n"]
    mails[1] %= re.sub("-$", "-Result", name).encode()
    assert MailTokenizer().transform_one(mails[0]) == MailTokenizer().transform_one(mails[1])


@pytest.mark.dovecot
def test_the_sieve_script_compiles(tmp_path):
    script = tmp_path / "folders.sieve"
    script.write_text(re.search(r"```sieve\n(.*?)```", GUIDE, re.S)[1])
    (tmp_path / "dovecot.conf").write_text("")
    command = ["sievec", "-c", tmp_path / "dovecot.conf", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
