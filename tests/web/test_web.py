"""The page in a browser: its content, its buttons, and its access control."""

import contextlib
import html
import http.client
import os
import re
import signal
import subprocess
import time
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
from commands import STREAMNB, streamnb_command
from hostile import hostile
from maildirs import UserMaildir, mail

from streamnb import Mailbox
from streamnb.classifier import Verdict
from streamnb.mailbox.digest import digest
from streamnb.mailbox.service.response import judge
from streamnb.mailbox.site_model import SiteModel
from streamnb.mailbox.verdict_log import LogLimits, VerdictLog
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher
from streamnb.web.app import _count, _percent, _Site, _strength, class_keys
from streamnb.web.figures import axis_ticks, split_periods
from streamnb.web.reading import plain_text, tint_level

SPAM, HAM = "cheap pills buy now", "lunch at noon with ann"
UNSURE = f"{SPAM} {HAM}"


def from_(sender, message):
    return f"From: {sender}\n".encode() + message


class Addresses(HTMLParser):
    """All addresses that a page links to or loads."""

    def __init__(self, text):
        super().__init__()
        self.addresses = []
        self.feed(text)
        assert self.addresses

    def handle_starttag(self, tag, attrs):
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]


class Page:
    """`streamnb web` as a process, and a browser without pictures or scripts."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*STREAMNB, "web", *map(str, arguments), "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.url = self.process.stdout.readline().strip()
        self.process.stderr.readline()
        self.host = re.match(r"http://([^/]+)/", self.url)[1]
        self.cookie = None
        status, headers, _ = self.ask("GET", self.url.partition(self.host)[2])
        assert (status, headers["Location"]) == (303, "/")
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        assert "HttpOnly" in headers["Set-Cookie"]
        assert "SameSite=strict" in headers["Set-Cookie"]

    def ask(self, method, path, body=None, **headers):
        with contextlib.closing(http.client.HTTPConnection(self.host, timeout=30)) as connection:
            if self.cookie:
                headers = {"Cookie": self.cookie, **headers}
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode()

    def get(self, path):
        status, headers, text = self.ask("GET", path)
        assert status == 200, text
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert all(address[0] in "/#" for address in Addresses(text).addresses), "only of this site"
        return text

    def form(self):
        return re.search(r'name="form" value="(\w+)"', self.get("/?kind=all"))[1]

    def post(self, path, **fields):
        fields = {"form": self.form(), "where": "/?kind=all", **fields}
        status, headers, text = self.ask("POST", path, urlencode(fields, doseq=True))
        return status, headers["Location"], text

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        report_lines = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert report_lines == ""


def text_of(page):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page)))


@pytest.fixture
def home(tmp_path):
    """A Maildir that was watched: one mail is unsure, one was moved, one stayed."""
    home = UserMaildir(tmp_path / "Maildir")
    with Mailbox(tmp_path / "mail.db") as box:
        for i in range(70):
            box.learn(from_("Pills <p@example.com>", mail(1000 + i, SPAM)), "spam")
            box.learn(from_("Ann <a@example.org>", mail(2000 + i, HAM)), "ham")
        plan = FolderPlan("INBOX", {"Junk": "spam"}, ("Archive",), move=True)
        watcher = Watcher(box, MaildirAccount(home.root), plan, lambda line: None)
        watcher.scan()
        home.deliver(1, from_("Mixed <m@example.com>", mail(1, UNSURE)))
        home.deliver(2, from_("Pills <p@example.com>", mail(2, SPAM)))
        home.deliver(3, from_("Ann <a@example.org>", mail(3, HAM)))
        watcher.scan()
    return home


@pytest.fixture
def page(home, tmp_path):
    page = Page(home.root, "--db", tmp_path / "mail.db")
    yield page
    page.close()


def entry(tmp_path, number):
    with Mailbox(tmp_path / "mail.db") as box:
        return next(item for item in VerdictLog(box).entries() if item.subject == f"m{number}")


def test_unsure_mail_is_listed_and_labelled_by_a_click(page, tmp_path):
    page_text = text_of(page.get("/"))
    assert "m1 Mixed <m@example.com>" in page_text
    assert "Pills" not in page_text
    assert "moved to Junk" in text_of(page.get("/?kind=moved"))
    assert "Ann <a@example.org>" in text_of(page.get("/?kind=all"))
    number = entry(tmp_path, 1).id
    status, folder_name, _ = page.post("/label", one=f"{number}:spam")
    assert status == 303
    assert "1 message learned as spam" in text_of(page.get(folder_name))
    assert entry(tmp_path, 1).learned_label == "spam"
    assert "m1" not in text_of(page.get("/"))
    message_page = page.get(f"/message/{number}")
    assert "Labelled spam by you" in text_of(message_page)
    assert f'value="{number}:spam"' not in message_page, "it has that label already"
    assert f'value="{number}:ham"' in message_page
    assert re.search(r"50 to \d+ % 0? ?1 100\.0 %|% 1 (100|0)\.0 %", text_of(page.get("/figures")))
    status, folder_name, _ = page.post("/back", **{"id": number, "as": "spam"})
    assert "Undone: 1 message" in text_of(page.get(folder_name))
    assert entry(tmp_path, 1).learned_label is None
    assert "m1" in text_of(page.get("/"))
    with Mailbox(tmp_path / "mail.db") as box:
        assert box.verify() == []


def test_many_messages_are_labelled_at_once_even_if_deleted(page, home, tmp_path):
    for path in home.find(2) + home.find(3):
        path.unlink()
    ids = [entry(tmp_path, number).id for number in (2, 3)]
    page.post("/label", id=ids, many="ham")
    assert [entry(tmp_path, number).learned_label for number in (2, 3)] == ["ham", "ham"]
    message = from_("Pills <p@example.com>", mail(2, SPAM))
    with Mailbox(tmp_path / "mail.db") as box, Mailbox(tmp_path / "other.db") as other:
        assert box.label_of(digest(message)) == ("ham", "human", "web")
        assert box.verify() == []
        row = box.ledger.active(digest(message))
        other.learn(message, "ham")
        other_counts = other.ledger.active(digest(message)).tokens
        assert all(a == b for a, b in zip(row.tokens, other_counts, strict=True))
    page.post("/label", one=f"{ids[0]}:spam")
    for _ in range(2):  # a second click: the earlier label stays
        page.post("/back", **{"id": ids[0], "as": "spam"})
        assert entry(tmp_path, 2).learned_label == "ham"  # what was corrected holds again
    assert "learned" not in text_of(page.get("/?did=labelled&as=<b>&ids=1"))


def test_deleted_verdicts_do_not_prevent_labels_of_others(page, tmp_path):
    ids = [entry(tmp_path, number).id for number in (1, 2, 3)]
    with Mailbox(tmp_path / "mail.db") as box:
        VerdictLog(box).erase([entry(tmp_path, 2).digest])
    status, folder_name, _ = page.post("/label", id=ids, many="ham")
    assert status == 303
    assert "2 messages learned as ham , 1 is no longer here" in text_of(page.get(folder_name))
    assert [entry(tmp_path, number).learned_label for number in (1, 3)] == ["ham", "ham"]


def test_a_message_is_shown_as_plain_text(page, home, tmp_path):
    number = entry(tmp_path, 2).id
    text = page.get(f"/message/{number}")
    assert '<span class="w5"' in text
    assert "cheap" in text_of(text)
    assert "Verdict on arrival: spam" in text_of(text)
    (path,) = home.find(2)
    path.rename(home.folder("Archive") / "cur" / path.name)
    assert "The text is not available" in text_of(page.get(f"/message/{number}"))
    assert page.ask("GET", "/message/999")[0] == 404
    assert page.ask("GET", "/message/x")[0] == 404


@pytest.mark.parametrize(
    ("kind", "body", "page_text"),
    [
        ("plain", "Hi" + " " * 390_000 + "you", None),
        ("plain", "Hi" + "\n \n" * 190_000, "Hi"),
        ("plain", "one  \n \t\n  two\n three", "one\n\ntwo\n three"),
        ("html", "<style></style>" * 26_000 + "<p>you", "you"),
        ("html", "<style " * 50_000 + "you", ""),
        ("html", "\u0130" * 40 + "<STYLE>p {}</style ><p>you<script>1", "\u0130" * 40 + " you"),
        ("html", "a &#" + "1" * 5000 + "; b &#66;", "a \ufffd; b B"),
    ],
)
def test_any_text_is_shown_in_linear_time(kind, body, page_text):
    began = time.process_time()
    message = f"Content-Type: text/{kind}; charset=utf-8\n\n{body}".encode()
    text = plain_text(message)
    assert time.process_time() - began < 1
    assert page_text is None or text == page_text


def test_figures_words_and_labels(page, tmp_path):
    text = text_of(page.get("/figures"))
    assert "Mistakes over time" in text
    assert "of 1" not in text
    lesson = re.search(r'name="id" value="(\d+)"', page.get("/figures"))[1]
    with Mailbox(tmp_path / "mail.db") as box:
        before = sum(box.counts[0].weights)
    assert page.post("/unlearn", id=lesson)[0] == 303
    with Mailbox(tmp_path / "mail.db") as box, box.reading():
        assert sum(box.counts[0].weights) == before - 1
        assert box.verify() == []
    assert "pills" in text_of(page.get("/words?word=pills"))
    assert "was never learned" in text_of(page.get("/words?word=%3Cscript%3E"))
    assert "<script>" not in page.get("/words?word=%3Cscript%3E")
    assert page.ask("GET", "/static/../app.py")[0] == 404


def test_pages_of_several_databases_are_open_in_one_browser(tmp_path):
    """A browser keeps the cookies of a host without their ports."""
    with contextlib.ExitStack() as stack:
        pages = [
            stack.enter_context(contextlib.closing(Page("--db", tmp_path / f"{i}.db")))
            for i in range(2)
        ]
        cookies = dict(page.cookie.split("=", 1) for page in pages)
        header = "; ".join(f"{name}={value}" for name, value in cookies.items())
        for page in pages:
            assert page.ask("GET", "/", Cookie=header)[0] == 200
            assert page.ask("GET", "/", Cookie=header.replace("=", "=x"))[0] == 401


def test_only_its_owner_and_its_own_forms_are_let_in(page, tmp_path):
    for headers in ({"Cookie": ""}, {"Cookie": "streamnb-token=wrong"}):
        assert page.ask("GET", "/", **headers)[0] == 401
    token = (tmp_path / "mail.db.token").read_text().strip()
    assert page.ask("GET", "/", Cookie=f"streamnb-token={token}")[0] == 401  # not for a cookie
    assert page.ask("GET", "/", Host="evil.example.com")[0] == 421
    number = entry(tmp_path, 1).id
    assert page.post("/label", one=f"{number}:spam", form="wrong")[0] == 403
    body = urlencode({"form": page.form(), "one": f"{number}:spam"})
    assert page.ask("POST", "/label", body, Origin="http://evil.example.com")[0] == 403
    assert page.ask("GET", "/label")[0] == 405
    assert entry(tmp_path, 1).learned_label is None
    for folder_name in ("//evil.example.com/", "https://evil.example.com/", "/\\evil"):
        assert page.post("/back", id=number, folder_name=folder_name)[1].startswith("/?")
    for wrong in ({"one": "x:spam"}, {"one": f"{number}:nonsense"}, {"one": "999:spam"}, {}):
        assert page.post("/label", **wrong)[0] == 404
    assert page.ask("GET", "/?kind=nonsense")[0] == 404
    assert page.ask("GET", "/?before=x")[0] == 404
    assert page.ask("POST", "/label", b"x" * (2 << 20))[0] == 413


ODD = ['<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "{{ 7*7 }}{% include 'x' %}", "\u202egnp.exe",
       "javascript:alert(1)", "a" * 5000, "\x00\x1b[31m", "=?utf-8?q?=3Cscript=3E?=", "%s%n%d", "'; DROP TABLE verdicts; --"]  # fmt: skip


def test_the_verdict_now_includes_the_sites_model(tmp_path):
    home = UserMaildir(tmp_path / "Maildir")
    with Mailbox(tmp_path / "site.db") as site:
        for number in range(30):
            site.learn(mail(number, SPAM), "spam")
            site.learn(mail(number, HAM), "ham")
    with Mailbox(tmp_path / "mail.db", base=SiteModel(tmp_path / "site.db")) as box:
        plan = FolderPlan("INBOX", {"Junk": "spam"})
        watcher = Watcher(box, MaildirAccount(home.root), plan, lambda line: None)
        watcher.scan()
        home.deliver(2, mail(2, SPAM))
        watcher.scan()
        number = VerdictLog(box).entries("all")[0].id
    page = Page(home.root, "--db", tmp_path / "mail.db", "--base", tmp_path / "site.db")
    try:
        text = page.get(f"/message/{number}")
        assert "Verdict now: spam" in text_of(text)
        assert "pills" in text_of(text).partition("Evidence")[2]
        (tmp_path / "site.db").write_bytes(b"damaged" * 1000)
        assert "Verdict on arrival: spam" in text_of(page.get(f"/message/{number}"))
    finally:
        page.close()


@pytest.mark.long
def test_hostile_mail_on_every_page(tmp_path, full):
    home = UserMaildir(tmp_path / "Maildir")
    mails = [
        f"From: {odd}\nSubject: {odd}\nContent-Type: text/html\n\n{odd}<script src=http://x></script>".encode()
        for odd in ODD
    ] + [message[: 200_000 if full else 20_000] for message in hostile().values()]
    with Mailbox(tmp_path / "mail.db") as box:
        for i in range(3):
            box.learn(mail(i, SPAM) + ODD[i].encode(), "spam")
            box.learn(mail(i, HAM), ODD[0][:20].replace(" ", ""))
        watcher = Watcher(
            box, MaildirAccount(home.root), FolderPlan("INBOX", {"Junk": "spam"}), lambda line: None
        )
        watcher.scan()
        for i, message in enumerate(mails):
            home.deliver(i, message)
        watcher.scan()
        ids = [item.id for item in VerdictLog(box).entries(most=1000)]
        assert len(ids) > 0.75 * len(mails)  # some differ only in bytes that no reader sees
    page = Page(home.root, "--db", tmp_path / "mail.db")
    try:
        page_text = [page.get(path) for path in ("/?kind=all", "/figures", "/words")]
        page_text += [page.get(f"/message/{number}") for number in ids]
        for odd in ODD:
            page_text.append(page.get("/?" + urlencode({"kind": "all", "search": odd})))
            page_text.append(page.get("/words?" + urlencode({"word": odd})))
        page.post("/label", id=ids, many="spam")
        page_text += [page.get("/figures"), page.get("/words"), page.get("/?kind=labelled")]
        for text in page_text:
            scripts = re.findall(r"<(?:script|img|iframe|link|object)\b[^>]*>", text)
            assert all("/static/" in item for item in scripts)
            assert text.count("<script") == 1
            assert "49" not in text or "{{ 7*7 }}" in html.unescape(text) or "49" in str(ids)
    finally:
        page.close()
    with Mailbox(tmp_path / "mail.db") as box:
        assert box.verify() == []


def test_a_clock_that_is_wrong_for_hours_deletes_no_verdicts(tmp_path, monkeypatch):
    day = 86400
    now = {"time": 1_800_000_000.0}
    monkeypatch.setattr("streamnb.mailbox.verdict_log.time.time", lambda: now["time"])

    def subjects(*moments):
        for moment in moments:
            now["time"] = 1_800_000_000 + moment * day
            number = next(numbers)
            record.note(mail(number), judge(box, mail(number)), "here")
        return [item.subject for item in record.entries()][::-1]

    numbers = iter(range(100))
    with Mailbox(tmp_path / "mail.db") as box:
        record = VerdictLog(box)
        assert subjects(0, 10, 20) == ["m0", "m1", "m2"]
        assert subjects(20 + 40, 20 + 40.5) == ["m0", "m1", "m2", "m3", "m4"]  # ahead
        assert subjects(-20_000) == ["m0", "m1", "m2", "m3", "m4", "m5"]  # in the past
        assert subjects(21, 22.1)[:3] == ["m0", "m1", "m2"]
        assert subjects(30, 31.1, 32.2)[0] == "m1"  # right again: m0 is too old
        record.limit(LogLimits(500, 5))  # at once
        assert subjects()[-2:] == ["m9", "m10"]


def test_a_verdict_of_a_clock_that_was_ahead_keeps_no_others(tmp_path, monkeypatch):
    now = {"time": 1_800_000_000.0}
    monkeypatch.setattr("streamnb.mailbox.verdict_log.time.time", lambda: now["time"])
    with Mailbox(tmp_path / "mail.db") as box:
        record = VerdictLog(box)
        for number, days in enumerate((1000, 0, 20, 40, 42)):
            now["time"] = 1_800_000_000 + days * 86400
            record.note(mail(number), judge(box, mail(number)), "here")
        assert {item.subject for item in record.entries()} == {"m0", "m2", "m3", "m4"}


def test_the_record_is_bounded_and_can_be_turned_off(tmp_path):
    with Mailbox(tmp_path / "mail.db") as box:
        record = VerdictLog(box)
        record.limit(LogLimits(5, 30))
        for i in range(12):
            record.note(mail(i), judge(box, mail(i)), "here")
        assert [item.subject for item in record.entries()] == ["m11", "m10", "m9", "m8", "m7"]
        record.note(mail(8), judge(box, mail(8)), "again")
        assert [item.subject for item in record.entries()] == ["m8", "m11", "m10", "m9", "m7"]
        assert [item.subject for item in record.entries(search="m1")] == ["m11", "m10"]
        assert record.entries(search="%") == []
        record.limit(LogLimits(5, 0))
        assert record.entries() == []
    db = ("--db", tmp_path / "mail.db")
    assert (
        streamnb_command("verdicts", "--most", 0, *db)[1]
        == "0 verdicts; limit: 0 verdicts, 0 days\n"
    )
    done = subprocess.run(
        [*STREAMNB, "filter", *map(str, db)], input=mail(1), capture_output=True, check=True
    )
    assert done.stderr == b""
    assert streamnb_command("verdicts", *db)[1].startswith("0 verdicts")
    streamnb_command("verdicts", "--most", 9, "--days", 9, *db)
    subprocess.run(
        [*STREAMNB, "filter", *map(str, db)], input=mail(1), capture_output=True, check=True
    )
    assert streamnb_command("verdicts", *db)[1].startswith("1 verdicts")
    assert '"subject": "m1"' in streamnb_command("verdicts", "--json", *db)[1]


@pytest.mark.parametrize("setting", [("--most", 0), ("--most", 1), ("--days", 0)])
def test_verdicts_beyond_a_new_limit_leave_no_trace_while_a_server_has_the_database_open(
    tmp_path, setting
):
    path = tmp_path / "mail.db"
    with Mailbox(path) as box:
        secret = from_("Secret <secret@example.com>", mail(77, "zanzibarxyz"))
        for message in (secret, mail(1)):
            VerdictLog(box).note(message, judge(box, message), "here")
        status, _, error = streamnb_command("verdicts", *setting, "--db", path)
        assert (status, error) == (0, "")
        for file in tmp_path.glob("mail.db*"):
            assert b"secret@example.com" not in file.read_bytes()
        with box.reading():
            command = ("verdicts", *setting, "--db", path, "--wait", "0.1")
            status, _, error = streamnb_command(*command)
            assert (status, "traces stay in the file" in error) == (75, True)


def test_erased_messages_leave_no_trace(tmp_path, home):
    db = ("--db", tmp_path / "mail.db")
    secret = from_("Secret <secret@example.com>", mail(77, "zanzibarxyz"))
    (tmp_path / "one.eml").write_bytes(secret)
    streamnb_command("learn", "ham", tmp_path / "one.eml", *db)
    streamnb_command("learn", "spam", tmp_path / "one.eml", *db)
    subprocess.run(
        [*STREAMNB, "filter", *map(str, db)], input=secret, capture_output=True, check=True
    )
    assert b"zanzibarxyz" in (tmp_path / "mail.db").read_bytes()
    status, out, _ = streamnb_command("forget", "--erase", tmp_path / "one.eml", *db)
    assert (status, out) == (0, "1 message erased, of 1 named\n")
    status, out, error = streamnb_command("forget", "--erase", tmp_path / "one.eml", *db)
    assert (status, out) == (4, "0 messages erased, of 1 named\n")
    assert "1 message not found in the database;" in error
    for name in ("mail.db", "mail.db-wal"):
        if (tmp_path / name).exists():
            assert b"zanzibarxyz" not in (tmp_path / name).read_bytes()
            assert b"secret@example.com" not in (tmp_path / name).read_bytes()
    with Mailbox(tmp_path / "mail.db") as box:
        assert box.verify() == []
        assert not list(box.ledger.rows("digest = ?", (digest(secret),)))
    assert (
        streamnb_command("forget", "--erase", "--sender", "p@EXAMPLE.com", *db)[1]
        == "1 message erased\n"
    )
    with Mailbox(tmp_path / "mail.db") as box:
        assert sorted(item.subject for item in VerdictLog(box).entries()) == ["m1", "m3"]
    assert streamnb_command("forget", "--sender", "x", *db)[0] == 2


@pytest.mark.parametrize(
    ("options", "report_lines"),
    [
        (("--listen", "0.0.0.0:8026"), "only for this machine"),
        (("--listen", "nonsense"), "not an address"),
        (("/nonexistent",), "no such folder; name a Maildir"),
    ],
)
def test_misuse_is_one_line(tmp_path, options, report_lines):
    status, out, error = streamnb_command("web", "--db", tmp_path / "db", *options)
    assert status != 0
    assert (out, error.count("\n")) == ("", 1)
    assert report_lines in error


@pytest.fixture
def browser():
    """A real browser; each of its errors fails the test."""
    import playwright.sync_api as playwright

    off = ["gpu", "background-networking", "component-update", "sync", "quic"]
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in off)],
        )
        complaints = []

        def opened(url, **options_):
            tab = chromium.new_context(**options_).new_page()
            tab.on("console", lambda message: complaints.append(message.text))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.on(
                "request",
                lambda item: item.url.startswith("http://127.0.0.1") or complaints.append(item.url),
            )
            tab.goto(url)
            return tab

        yield opened
        chromium.close()
        assert complaints == []


@pytest.mark.browser
@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_sorts_her_mail_in_a_browser(page, browser, tmp_path, scripts):
    """From the first unsure mail to its label, with keys and without scripts."""
    tab = browser(page.url, java_script_enabled=scripts, viewport={"width": 390, "height": 800})
    assert "token" not in tab.url
    row = tab.locator(".messages li")
    assert row.count() == 1
    if scripts:
        tab.keyboard.press("j")
        tab.keyboard.press("s")
    else:
        row.get_by_role("button", name="spam").click()
    tab.wait_for_selector(".notice")
    assert "1 message learned as spam" in tab.locator(".notice").inner_text()
    assert entry(tmp_path, 1).learned_label == "spam"
    if scripts:
        tab.wait_for_load_state()  # keys are looked at when the page is whole
        tab.keyboard.press("z")
    else:
        tab.get_by_role("button", name="Undo").click()
    tab.wait_for_selector("text=Undone: 1 message")
    assert entry(tmp_path, 1).learned_label is None
    tab.get_by_role("link", name="All", exact=True).click()
    tab.locator(".messages li").nth(2).wait_for()  # the click does not wait for the page
    assert tab.locator(".messages li").count() == 3
    for box in tab.locator("input[type=checkbox]").all():
        box.check()
    tab.get_by_label("Learn marked messages as").select_option("ham")
    tab.get_by_role("button", name="Learn").click()
    tab.wait_for_selector("text=3 messages learned as")
    tab.get_by_role("link", name="m2").click()
    assert "cheap pills" in tab.locator("pre.text").inner_text()
    for name in ("Accuracy", "Words"):
        tab.get_by_role("link", name=name).click()
        assert tab.locator("h1").inner_text() == name
        tab.wait_for_load_state()  # with its style
        wide = tab.evaluate("document.documentElement.scrollWidth") if scripts else 390
        assert wide <= 390, "no sideways scrolling on a telephone"


@pytest.mark.browser
def test_hostile_mail_does_nothing_in_a_browser(browser, tmp_path):
    with Mailbox(tmp_path / "mail.db") as box:
        box.learn(mail(1, SPAM), "spam")
        for i, odd in enumerate(ODD):
            message = f"From: {odd}\nSubject: {odd}\n\n{odd} {i}".encode()
            VerdictLog(box).note(message, judge(box, message), odd, odd)
    page = Page("--db", tmp_path / "mail.db")
    try:
        tab = browser(page.url)
        tab.on("dialog", lambda dialog: pytest.fail("a script ran"))
        for path in ("/?kind=all", "/figures", "/words", *(f"/message/{i}" for i in range(1, 11))):
            tab.goto(f"http://{page.host}{path}")
        assert tab.locator("img, iframe, object").count() == 0
    finally:
        page.close()
    assert os.listdir(tmp_path)


def test_words_of_each_class_are_shown_beyond_its_bytes(box, monkeypatch):
    """The strongest words are shown even if all the strongest features are bytes."""
    site = _Site(box, "session", None)
    for i in range(40):
        box.learn(mail(i, "cheap pills buy now"), "spam")
        box.learn(mail(100 + i, "lunch at noon with ann"), "ham")
    real = type(box.classifier).strongest

    def with_bytes_first(classifier, labels, n):
        return {
            label: ([(b"x%d" % i, 9.0, 0, i) for i in range(500)] + rows)[:n]
            for label, rows in real(classifier, labels, n).items()
        }

    monkeypatch.setattr(type(box.classifier), "strongest", with_bytes_first)
    with box.reading():
        words = site._top_words()
    assert all(len(rows) == 25 for rows in words.values())


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.2, "<1"), (0.8281, "1"), (7.4, "7"), (12345.6, "12,346")]
)
def test_counts_are_whole_numbers(value, text):
    assert _count(value) == text


@pytest.fixture
def wide_page(home, tmp_path):
    """A page of ten classes with long names, and of verdicts with long words."""
    words = "".join(f"longword{i}" for i in range(12))
    with Mailbox(tmp_path / "mail.db") as box:
        for i in range(8):
            box.learn(
                mail(5000 + i, f"newsletter weekly{i} issue"), f"class-of-{'long' * 6}-name{i}"
            )
        for i in range(60):
            box.learn(mail(6000 + i, f"{SPAM if i % 9 else HAM} issue{i}"), "spam")
        for i in range(4):
            message = f"From: {words}@{words}.example\nSubject: {words} {i}\n\n{UNSURE} {words} {i}"
            VerdictLog(box).note(message.encode(), judge(box, message.encode()), words, words)
    page = Page(home.root, "--db", tmp_path / "mail.db")
    yield page
    page.close()


@pytest.fixture
def empty_page(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    page = Page("--db", folder / "mail.db")
    yield page
    page.close()


PATHS = ("/?kind=all", "/?kind=moved&did=labelled&as=spam&ids=1", "/message/2", "/message/5",
         "/figures", "/words?word=pills")  # fmt: skip
BEYOND = """
() => [...document.querySelectorAll("body *")]
    .filter((item) => item.getBoundingClientRect().right > innerWidth + 1)
    .filter((item) => !item.closest(innerWidth < 600 ? "thead, .skip" : ".skip"))
    .map((item) => item.outerHTML.slice(0, 80))
"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_every_width(wide_page, empty_page, browser, scheme):
    """Nothing is wider than the window from 320 pixels on, and axe-core finds nothing."""
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    problems = []
    for site, paths in ((wide_page, PATHS), (empty_page, ("/", "/figures", "/words"))):
        # axe-core is a script, which the pages' policy would not let in
        tab = browser(site.url, color_scheme=scheme, bypass_csp=True)
        tab.set_default_timeout(120_000)
        for path in paths:
            tab.goto(f"http://{site.host}{path}")
            tab.wait_for_load_state()
            for width in (320, 599, 600, 768, 1280, 390):
                tab.set_viewport_size({"width": width, "height": 800})
                beyond = tab.evaluate(BEYOND)
                if tab.evaluate("document.documentElement.scrollWidth") > width or beyond:
                    problems.append((path, width, beyond[:3]))
            for violation in axe.run(tab)["violations"]:
                problems.append((path, violation["id"], violation["nodes"][0]["html"][:100]))
    assert problems == []


@pytest.mark.browser
def test_paper_has_all_text_and_nothing_to_click(wide_page, browser):
    tab = browser(wide_page.url, color_scheme="dark", viewport={"width": 720, "height": 1000})
    tab.emulate_media(media="print")
    for path in PATHS:
        tab.goto(f"http://{wide_page.host}{path}")
        tab.wait_for_load_state()
        assert tab.evaluate(BEYOND) == []
        assert tab.locator("button:visible, input:visible, nav:visible").count() == 0
        background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"
    cut_off = "item => item.scrollHeight > item.clientHeight + 1"
    tab.goto(f"http://{wide_page.host}/message/2")
    assert not any(item.evaluate(cut_off) for item in tab.locator("pre.text").all())


@pytest.mark.browser
def test_tables_are_cards_on_a_phone(wide_page, browser):
    tab = browser(wide_page.url, viewport={"width": 390, "height": 800})
    for path in ("/message/2", "/figures", "/words?word=pills"):
        tab.goto(f"http://{wide_page.host}{path}")
        tab.wait_for_load_state()
        displays = tab.evaluate(
            "[...document.querySelectorAll('tbody tr')].map(row => getComputedStyle(row).display)"
        )
        assert displays
        assert set(displays) == {"block"}
        cells = tab.locator("tbody td:not(:first-child):not([data-label]):not(:has(button))")
        assert cells.count() == 0, "each cell of a card has its name"


@pytest.mark.browser
def test_every_class_has_a_key_that_the_question_mark_shows(wide_page, browser, tmp_path):
    tab = browser(wide_page.url)
    tab.goto(f"http://{wide_page.host}/?kind=all")
    tab.wait_for_load_state()
    keys = tab.locator("#keys")
    assert not keys.is_visible()
    tab.keyboard.press("?")
    assert keys.is_visible()
    with Mailbox(tmp_path / "mail.db") as box:
        labels = set(map(str, box.labels))
    listed = {
        item.get_attribute("data-class"): item.inner_text()
        for item in tab.locator("#keys kbd[data-class]").all()
    }
    assert set(listed) == labels
    tab.keyboard.press("?")
    assert not keys.is_visible()
    for label in (
        max(labels - {"ham", "spam"}),
        "spam",
    ):  # one whose button is folded away, and the usual one
        tab.goto(f"http://{wide_page.host}/?kind=all")
        tab.wait_for_load_state()
        tab.keyboard.press("j")
        tab.keyboard.press(listed[label])
        tab.wait_for_selector(".notice")
        assert f"1 message learned as {label}" in tab.locator(".notice").inner_text()


def test_reasons_have_one_sign_between_two_classes(page, tmp_path):
    """A word is evidence for the same class, regardless of the verdict."""
    for number, side, word in ((2, "for spam", "pills"), (3, "for ham", "lunch")):
        text = page.get(f"/message/{entry(tmp_path, number).id}")
        row = next(row for row in re.findall(r"<tr>.*?</tr>", text, re.S) if f">{word}<" in row)
        assert side in text_of(row)
    page_text = text_of(page.get("/?kind=all"))
    assert "for spam: " in page_text
    assert "for ham: " in page_text


@pytest.mark.parametrize(
    ("label", "others", "log_odds", "side"),
    [
        ("spam", ["ham"], 1.0, "for spam"),
        ("spam", ["ham"], -1.0, "for ham"),
        ("ham", ["spam"], -1.0, "for spam"),
        ("ham", ["spam"], 1.0, "for ham"),
        ("work", ["spam", "ham"], 1.0, "for work"),
        ("work", ["spam", "ham"], -1.0, "against work"),
        ("spam", [], -1.0, "against spam"),
    ],
)
def test_evidence_names_the_class_that_it_favours(label, others, log_odds, side):
    shares = dict.fromkeys([label, *others], 1 / (1 + len(others)))
    assert Verdict(label, 0.5, 0.0, False, shares, []).side(log_odds) == side


@pytest.mark.parametrize(("spams", "hams"), [(3, 3), (70, 3), (70, 70)])
def test_an_unsure_verdict_has_its_cause(box, spams, hams):
    for i in range(max(spams, hams)):
        if i < spams:
            box.learn(mail(i, SPAM), "spam")
        if i < hams:
            box.learn(mail(1000 + i, HAM), "ham")
    site = _Site(box, "session", None)
    is_told = []
    for text in (SPAM, UNSURE, HAM):
        verdict = box.classify(mail(5000, text))
        is_unsure = verdict.unsure or not verdict.ready
        assert bool(site._unsure_cause(verdict)) == is_unsure
        if is_unsure and box.classifier.is_ready(verdict.label):
            assert "is sure from" in site._unsure_cause(verdict)
        is_told.append(is_unsure)
    assert any(is_told)


def test_the_tint_of_a_word_agrees_with_its_strength_in_the_table():
    for log_odds in (0.0, 0.02, 0.08, 0.3, 0.49, 0.5, 0.6, 1.5, 1.99, 2.0, 9.0):
        tints = {"weak": {0, 1, 2}, "moderate": {3, 4}, "strong": {5}}[_strength(log_odds)]
        assert {tint_level(log_odds), -tint_level(-log_odds)} <= tints


def test_a_message_without_a_stored_subject_is_named_by_its_file(page, tmp_path):
    with Mailbox(tmp_path / "mail.db") as box:
        box.learn(mail(9001, "hello"), "ham", source="/home/ann/Maildir/cur/9001.host")
    assert "<summary>9001.host</summary>" in page.get("/figures")
    assert "(no subject)" not in page.get("/figures")


def test_files_are_shown_on_demand_only(page, home, tmp_path):
    with Mailbox(tmp_path / "mail.db") as box:
        box.learn(mail(9000, "hello"), "ham", source=f"{home.root}/cur/9000.host")
    text = page.get("/figures")
    assert str(home.root) in text
    assert str(home.root) not in text_of(re.sub(r"<details>.*?</details>", "", text, flags=re.S))


def test_keys_of_classes_are_distinct_and_none_of_the_page():
    keys = class_keys(["spam", "ham", *(f"class{i}" for i in range(40))])
    assert len(set(keys.values())) == len(keys) > 20
    assert not set(keys.values()) & set("jkxoz/?")
    assert class_keys(["ham", "a", "spam"]) == {"ham": "h", "a": "1", "spam": "s"}


@pytest.mark.parametrize("days", [1, 2, 5, 12, 40, 365])
def test_periods_are_days_or_messages(days):
    rows = [(1.7e9 + 86400 * (i * days // 730), i % 3 == 0) for i in range(730)]
    periods = split_periods(rows)
    assert 1 <= len(periods) <= 12
    assert sum(len(values) for _, values in periods) == 730
    assert [values for _, values in periods] != []
    is_by_day = all(re.fullmatch(r"\d{4}-\d\d-\d\d( to \d{4}-\d\d-\d\d)?", n) for n, _ in periods)
    assert is_by_day == (days > 1)
    if days <= 12 and days > 1:
        assert len(periods) == days
    assert split_periods([]) == []


@pytest.mark.parametrize("largest", [0.0, 0.004, 0.01, 0.03, 0.08, 0.17, 0.31, 0.6, 1.0])
def test_ticks_are_round_and_reach_the_largest_value(largest):
    ticks = axis_ticks(largest)
    assert ticks[0] == 0.0
    assert ticks[-1] >= largest
    assert 2 <= len(ticks) <= 5
    assert all(round(100 * tick, 6).is_integer() for tick in ticks)


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.5, "50.0 %"), (0.999, "99.9 %"), (0.99996, "99.996 %"), (1.0, "over 99.9999 %")],
)
def test_a_probability_below_one_never_looks_like_one(probability, text):
    assert _percent(probability) == text
