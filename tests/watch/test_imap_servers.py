"""IMAP servers that differ from Dovecot: a small server that answers like them."""

import base64
import re
import socketserver
import threading
from contextlib import closing

import pytest
from commands import streamnb_command

from streamnb import Mailbox
from streamnb.errors import CorpusError, MailServerError
from streamnb.mailbox.digest import digest
from streamnb.mailbox.watch.access import Access, parse_imap_url
from streamnb.mailbox.watch.imap import ImapAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

pytest.importorskip("imapclient")
USER, PASSWORD = "ann", "secret"


def mail(number):
    return f"Message-ID: <{number}@x>\r\nSubject: m{number}\r\n\r\nhello\r\n".encode()


class Server(socketserver.ThreadingTCPServer):
    """Folders of messages by UID, and the habits of a server."""

    daemon_threads = True
    capabilities = "IMAP4rev1 NAMESPACE"
    user, password = USER, PASSWORD
    namespace = '(("" "/")) NIL NIL'
    delimiter = "/"
    section_suffix = "<0>"
    before_fetch = after_fetch = ""  # lines that the server adds to one answer
    # Changes each line of an answer, but not the lines of messages.
    respell = staticmethod(lambda line: line)
    garbled_uids = {}  # noqa: RUF012 (the answer about each message that it garbles)
    greeting = "* OK ready"
    refused_command = ""  # the command that gets BAD
    list_lines = None  # in place of the usual answer to LIST
    search_lines = staticmethod(lambda uids: ["SEARCH " + " ".join(uids)])
    left_by_move = None  # whether a move that leaves the original makes a copy
    attributes = {}  # noqa: RUF012
    has_status = True
    next_uid = None  # in place of the right one
    validity = 1
    renumbers = False  # whether each selection gives all messages new UIDs
    needs_id = False  # whether folders are only opened for a client that named itself

    def __init__(self, folders):
        super().__init__(("127.0.0.1", 0), Session)
        self.folders = folders  # name -> {uid: [flags, message]}
        self.closed_folders = set()
        self.refused_uids = set()  # of messages whose content the server cannot read
        self.fetches = 0
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def account(self, user=USER):
        url = f"imap://{user}@127.0.0.1:{self.server_address[1]}/INBOX"
        return ImapAccount(parse_imap_url(url), Access(plaintext=True))


class Session(socketserver.StreamRequestHandler):
    def say(self, *lines):
        for line in lines:
            if isinstance(line, str):
                self.wfile.write(self.server.respell(line + "\r\n").encode())
            else:
                self.wfile.write(line + b"\r\n")

    def handle(self):
        self.folder = None
        self.is_named = False
        self.say(self.server.greeting)
        while line := self.rfile.readline():
            tag, _, command = line.decode().strip().partition(" ")
            name = command.split(" ", 1)[0].upper().removeprefix("UID ")
            name = command.upper().split(" ")[1] if name == "UID" else name
            answer = "BAD Command Error. 10"
            if name != self.server.refused_command:
                answer = getattr(self, f"do_{name.lower()}", lambda _: "BAD unknown")(command)
            self.say(f"{tag} {answer or 'OK done'}")

    def do_capability(self, _):
        self.say(f"* CAPABILITY {self.server.capabilities}")

    def do_login(self, command):
        if "LOGINDISABLED" in self.server.capabilities:
            return "NO LOGIN is disabled"
        wanted = f'"{self.server.password}"'
        return None if command.endswith((wanted, wanted.strip('"'))) else "NO wrong password"

    def do_authenticate(self, command):
        self.say("+ ")
        sent = base64.b64decode(self.rfile.readline()).decode()
        user, password = self.server.user, self.server.password
        if command == "AUTHENTICATE XOAUTH2":
            if sent == f"user={user}\1auth=Bearer {password}\1\1":
                return None
            self.say("+ e30=")  # the error as JSON, which the client must answer
            self.rfile.readline()
            return "NO invalid token"
        return None if sent == f"\0{user}\0{password}" else "NO wrong"

    def do_id(self, command):
        self.is_named = '"name" "streamnb"' in command
        self.say("* ID NIL")

    def do_namespace(self, _):
        self.say(f"* NAMESPACE {self.server.namespace}")

    def do_list(self, _):
        if self.server.list_lines is not None:
            return self.say(*self.server.list_lines)
        for name in self.server.folders:
            attributes = self.server.attributes.get(name, "")
            self.say(f'* LIST ({attributes}) "{self.server.delimiter}" "{name}"')
        return None

    def do_examine(self, command):
        name = re.sub(r'\\(["\\])', r"\1", re.sub(r'^"|"$', "", command.split(" ", 1)[1]))
        if name not in self.server.folders or name in self.server.closed_folders:
            return "NO [NOPERM] permission denied"
        if self.server.needs_id and not self.is_named:
            return "NO EXAMINE Unsafe Login"
        self.folder = self.server.folders[name]
        next_uid = self.server.next_uid
        next_uid = max(self.folder, default=0) + 1 if next_uid is None else next_uid
        self.server.validity += self.server.renumbers
        self.say(f"* {len(self.folder)} EXISTS")
        self.say(f"* OK [UIDVALIDITY {self.server.validity}] valid")
        self.say(f"* OK [UIDNEXT {next_uid}] next")
        return None

    do_select = do_examine

    def do_status(self, command):
        name = re.search(r'STATUS "?(.*?)"? \(', command)[1]
        folder = self.server.folders.get(name)
        if folder is None or not self.server.has_status:
            return "NO no such folder, or no STATUS of it"
        counters = f"MESSAGES {len(folder)} UIDNEXT {max(folder, default=0) + 1} UIDVALIDITY 1"
        self.say(f'* STATUS "{name}" ({counters})')
        return None

    def do_search(self, command):
        flags = {flag.lower() for flag in re.findall(r"KEYWORD (\S+)", command)}
        searched = re.search(r"UID (\d+):(\d+)", command)
        first, last = map(int, searched.groups()) if searched else (1, 2**32)
        if command.endswith("DELETED"):
            flags = {r"\deleted"}
        uids = [
            str(uid)
            for uid, (present, _) in sorted(self.folder.items())
            if not flags or flags & set(present.lower().split())
            if first <= uid <= last
        ]
        self.say(*(f"* {line}" for line in self.server.search_lines(uids)))

    def do_fetch(self, command):
        self.server.fetches += 1
        wanted = {int(uid) for uid in command.split()[2].split(",")}
        self.say(*filter(None, [self.server.before_fetch]))
        self.server.before_fetch = ""
        for number, uid in enumerate(sorted(self.folder), 1):
            flags, message = self.folder[uid]
            if uid not in wanted:
                continue
            if uid in self.server.garbled_uids:
                self.say(f"* {number} FETCH {self.server.garbled_uids[uid]}")
                continue
            if "BODY" in command and uid in self.server.refused_uids:
                continue
            if "BODY" not in command:
                self.say(f"* {number} FETCH (UID {uid} FLAGS ({flags}) RFC822.SIZE {len(message)})")
                continue
            section = "BODY[HEADER]" if "HEADER" in command else "BODY[]"
            content = message.partition(b"\r\n\r\n")[0] if "HEADER" in command else message
            start = f"* {number} FETCH (UID {uid} {section}{self.server.section_suffix} "
            self.say(f"{start}{{{len(content)}}}", content + b")")
        self.say(*filter(None, [self.server.after_fetch]))
        self.server.after_fetch = ""
        is_refused = "BODY" in command and wanted & self.server.refused_uids
        return "NO some of the messages could not be fetched" if is_refused else None

    def do_noop(self, _):
        return None

    do_logout = do_store = do_noop

    def do_move(self, command):
        if self.server.left_by_move == "with a copy":
            uid = int(command.split()[2])
            self.server.folders["Junk"][max(self.server.folders["Junk"], default=0) + 1] = [
                "",
                self.folder[uid][1],
            ]


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("STREAMNB_PASSWORD", PASSWORD)


@pytest.fixture
def server():
    with Server(
        {"INBOX": {2: ["", mail(2)], 5: ["", mail(5)]}, "Junk": {}, "Archive": {}}
    ) as server:
        yield server
        server.shutdown()


@pytest.fixture
def watch(server, tmp_path):
    """Return a function that scans once and returns the lines of the report."""
    with Mailbox(tmp_path / "mail.db") as mailbox:
        account = server.account()
        lines = []
        rules = FolderPlan("INBOX", {"Junk": "spam"}, ("Archive",))
        watcher = Watcher(mailbox, account, rules, lines.append)

        def scan():
            lines.clear()
            watcher.scan()
            return lines

        yield scan
        account.close()


@pytest.mark.parametrize("place", ["before_fetch", "after_fetch"])
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_a_report_without_uid_gives_no_message_the_flags_of_another(server, number, place):
    setattr(server, place, f"* {number} FETCH (FLAGS ($Junk))")
    server.folders["INBOX"] = {uid: ["", mail(uid)] for uid in (2, 3, 5, 9)}
    account = server.account()
    listed = account.list_messages("INBOX")
    assert list(listed) == ["1/2", "1/3", "1/5", "1/9"]
    # the reported message may have the keyword, another one may not
    uid = sorted(server.folders["INBOX"])[number - 1] if number <= 4 else None
    assert {name for name, item in listed.items() if item.keyword} <= {f"1/{uid}"}
    account.close()


@pytest.mark.parametrize("suffix", ["<0>", "", "<0.65536>"])
def test_sections_are_found_under_any_name(server, watch, suffix):
    server.section_suffix = suffix
    watch()
    server.folders["Junk"][1] = server.folders["INBOX"].pop(2)
    assert watch() == ["Junk/1/1: spam (learned)"]


def replace(pattern, text):
    return lambda line: re.sub(pattern, text, line)


@pytest.mark.parametrize(
    "respell",
    [
        replace(r"^\* \d+ FETCH", "* FETCH"), replace(r"^\* \d+ FETCH", "* 0 FETCH"),
        replace(r"^\* ", "*  "), replace(r"^(\* \d+) ", r"\1  "),
        replace(r"^\*.*?[(\[\r]|\(UID", lambda match: match[0].lower()), replace("\r", ""),
        replace(r"^\* \d+ FETCH", "noise\r\n\r\nZZ1 OK done\r\n\\g<0>"),
        replace(r"FLAGS \(", r"FLAGS (2024 NIL "), replace(r"\] valid", "] UIDs [valid"),
        replace(r"\[UIDVALIDITY \d+\]", "[UIDVALIDITY]"), replace(r"\[UIDNEXT \d+\]", "[UIDNEXT x]"),
        replace(r"SEARCH( \d.*)\r", "SEARCH\\1 (MODSEQ 9)\r"), replace("SEARCH \r", "SEARCH NIL\r"),
        replace(r"BODY\[HEADER\]<0>", "RFC822.HEADER"), replace(r"BODY\[\]<0>", "RFC822"),
    ],
)  # fmt: skip
def test_answers_are_read_in_any_spelling(server, watch, respell):
    server.respell = respell
    watch()
    server.folders["INBOX"][9] = ["", mail(9)]
    (line,) = watch()
    assert re.fullmatch(r"INBOX/\d/9: U .*", line)
    server.folders["Junk"][1] = server.folders["INBOX"].pop(2)
    (line,) = watch()
    assert re.fullmatch(r"Junk/\d/1: spam \(learned\)", line)


@pytest.mark.parametrize("refused_uid", [2, 5, 9])
def test_a_message_that_the_server_cannot_read_stops_no_other(server, watch, refused_uid):
    """Exchange and Dovecot answer NO to a command for several messages, one of which is damaged."""
    server.refused_uids = {refused_uid}
    watch()
    inbox = server.folders["INBOX"]
    inbox[9] = ["", mail(9)]
    lines = "\n".join(watch())
    assert ("INBOX/1/9: skipped until the next scan: it cannot be read" in lines) == (
        refused_uid == 9
    )
    uid = 2 if refused_uid == 5 else 5
    server.folders["Junk"][1] = inbox.pop(uid)
    assert watch() == ["Junk/1/1: spam (learned)"]
    server.refused_uids = set()
    assert any("INBOX/1/9: " in line for line in watch()) == (refused_uid == 9)


@pytest.mark.parametrize("next_uid", [0, 1, 3, 60_000, 10_000_000])
def test_a_wrong_uidnext_hides_no_message(server, next_uid):
    server.next_uid = next_uid
    server.folders["INBOX"][50_001] = ["", mail(1)]
    with closing(server.account()) as account:
        assert list(account.list_messages("INBOX")) == ["1/2", "1/5", "1/50001"]


def test_a_huge_answer_to_a_search_is_bounded(server, monkeypatch):
    monkeypatch.setattr("streamnb.mailbox.watch.imap_client._MAX_UIDS", 10)
    server.search_lines = lambda uids: ["ESEARCH UID ALL 4294967295:1,7"]
    with closing(server.account()) as account:
        assert list(account.list_messages("INBOX")) == ["1/2", "1/5"]


@pytest.mark.parametrize(
    "subject",
    [
        b"Retrieval using the IMAP4 protocol failed for the following message: 9",
        b"=?utf-8?q?Fehler_beim_Abruf_=C3=BCber_das_IMAP4-Protokoll=3A_9?=",
    ],
)
def test_the_text_of_exchange_for_an_unreadable_message_is_no_message(server, watch, subject):
    watch()
    text = b'From: "Microsoft Exchange Server" <>\r\nSubject: %b\r\n\r\nNot deleted.\r\n' % subject
    server.folders["INBOX"] |= {
        9: ["", text],
        10: ["", b"Received: from evil.example by mx.example\r\n" + text],
        11: ["", text.replace(subject, b"Offer")],
    }
    lines = watch()
    assert lines[0] == "INBOX/1/9: skipped until the next scan: it cannot be read"
    assert [line.partition(": ")[0] for line in lines[1:]] == ["INBOX/1/10", "INBOX/1/11"]
    with closing(server.account()) as account:
        contents = [message.content for message in account.iter_messages("INBOX")]
    assert [isinstance(content, CorpusError) for content in contents] == [False] * 2 + [True] + [
        False
    ] * 2


def test_new_uids_at_each_selection_make_no_mail_new(server, watch):
    server.renumbers = True
    server.has_status = False
    watch()
    assert watch() == []
    server.folders["INBOX"][6] = ["", mail(6)]
    assert len(watch()) == 1
    assert watch() == watch() == []
    server.folders["INBOX"][7] = ["", mail(7)]
    server.folders["Junk"] |= {uid: server.folders["INBOX"].pop(uid) for uid in (2, 5)}
    lines = [re.sub(r"[\d./]+", "", line) for line in watch()]
    assert lines[:2] == ["Junk: spam (learned)"] * 2
    assert lines[2].startswith("INBOX: U ")
    assert watch() == []


def test_two_messages_that_the_server_cannot_read_stop_no_other(server, watch):
    watch()
    inbox = server.folders["INBOX"]
    inbox[9], inbox[10] = ["", mail(9)], ["", mail(10)]
    server.refused_uids = {9, 10}
    watch()
    server.folders["Junk"][1] = inbox.pop(5)
    assert watch() == ["Junk/1/1: spam (learned)"]


@pytest.mark.parametrize(
    "answer",
    [
        "(UID 9 FLAGS (",
        "UID 9 FLAGS ()",
        "(FLAGS)",
        "(UID NIL FLAGS ())",
        "(UID 9 FLAGS ()))",
        "(UID 9 FLAGS NIL)",
        "(UID 9 BODY[HEADER] NIL BODY[] NIL)",
        '(UID 9 FLAGS ("a))',
        "(UID 9 (1) 2)",
    ],
)
def test_an_answer_that_cannot_be_parsed_stops_no_other_message(server, watch, answer):
    """Xeams and other servers garble the answer about some messages."""
    watch()
    server.garbled_uids = {9: answer}
    inbox = server.folders["INBOX"]
    inbox |= {7: ["", mail(7)], 9: ["", mail(9)], 11: ["", mail(11)]}
    lines = watch()
    assert [line for line in lines if "/9:" not in line] == [
        "INBOX/1/7: U 0.0000",
        "INBOX/1/11: U 0.0000",
    ]
    server.folders["Junk"][1] = inbox.pop(5)
    assert watch() == ["Junk/1/1: spam (learned)"]
    with closing(server.account()) as account:
        contents = [item.content for item in account.iter_messages("INBOX")]
    assert [item for item in contents if isinstance(item, bytes)] == [mail(2), mail(7), mail(11)]
    (error,) = (item for item in contents if not isinstance(item, bytes))
    assert "INBOX;UID=9: the server cannot read the message" in str(error)
    server.garbled_uids = {}
    assert [line[:16] for line in watch()] == ["INBOX/1/9: U 0.0"]


@pytest.mark.parametrize("refused", [{5}, {2, 5}])
def test_training_continues_after_a_message_that_the_server_cannot_read(server, tmp_path, refused):
    server.refused_uids = refused
    server.folders["INBOX"] |= {uid: ["", mail(uid)] for uid in range(6, 12)}
    url = f"imap://{USER}@127.0.0.1:{server.server_address[1]}/INBOX"
    arguments = "learn", "spam", url, "--plaintext", "--db", tmp_path / "mail.db"
    status, out, errors = streamnb_command(*arguments)
    assert status == 3
    assert f" {8 - len(refused)} learned" in out
    assert errors.count("the server cannot read the message") == len(refused)


@pytest.mark.parametrize("copied", ["with a copy", "without a copy"])
def test_a_move_that_leaves_the_original_is_reported_once(server, tmp_path, copied):
    server.capabilities += " MOVE"
    server.left_by_move = copied
    spam = mail(9).replace(b"hello", b"cheap pills buy now")
    with Mailbox(tmp_path / "mail.db") as mailbox:
        for number in range(70):
            mailbox.learn(spam.replace(b"9@x", b"%d@x" % (100 + number)), "spam")
            mailbox.learn(mail(300 + number), "ham")
        account = server.account()
        lines = []
        rules = FolderPlan("INBOX", {"Junk": "spam"}, move=True)
        watcher = Watcher(mailbox, account, rules, lines.append)
        watcher.scan()
        lines.clear()
        for number in range(20, 23):  # a change of the folder, so each scan lists it
            server.folders["INBOX"] |= {9: ["", spam], number: ["", mail(number)]}
            watcher.scan()
        assert [line for line in lines if "/9:" in line] == [
            f"INBOX/1/9: skipped: {account.name}: the server reported a move of INBOX/1/9 to Junk, "
            "but the message is still in INBOX"
        ]
        assert len(server.folders["Junk"]) == (copied == "with a copy")
        assert mailbox.label_of(digest(spam)) is None
        account.close()


@pytest.mark.parametrize(
    ("target", "label"), [("Work", ("work", "human", "watch Work")), ("Junk", None)]
)
def test_a_move_by_a_person_after_a_move_that_failed_is_learned(server, tmp_path, target, label):
    """In the target of streamnb's own move, a copy can appear late. So it teaches nothing."""
    server.capabilities += " MOVE"
    server.left_by_move = "without a copy"
    server.folders["Work"] = {}
    spam = mail(9).replace(b"hello", b"cheap pills buy now")
    with Mailbox(tmp_path / "mail.db") as mailbox, closing(server.account()) as account:
        for number in range(70):
            mailbox.learn(spam.replace(b"9@x", b"%d@x" % (100 + number)), "spam")
            mailbox.learn(mail(300 + number), "ham")
            mailbox.learn(mail(500 + number).replace(b"hello", b"report meeting"), "work")
        rules = FolderPlan("INBOX", {"Junk": "spam", "Work": "work"}, move=True)
        watcher = Watcher(mailbox, account, rules, [].append)
        watcher.scan()
        server.folders["INBOX"][9] = ["", spam]
        watcher.scan()
        watcher.scan()
        server.folders[target][1] = server.folders["INBOX"].pop(9)
        for number in range(30, 33):
            server.folders["INBOX"][number] = ["", mail(number)]
            watcher.scan()
        assert mailbox.label_of(digest(spam)) == label


def test_a_server_that_refuses_all_messages_is_an_error(server, watch):
    """It may be overloaded."""
    server.refused_uids = {2, 5}
    with pytest.raises(MailServerError, match="could not be fetched"):
        watch()
    server.refused_uids = set()
    assert "INBOX: 2 messages there already" in watch()
    server.folders["INBOX"][9] = ["", mail(9)]
    server.refused_uids = {2, 5, 9}
    with pytest.raises(MailServerError, match="could not be fetched"):
        watch()


def test_a_folder_that_cannot_be_opened_stops_no_other(server, watch):
    server.closed_folders.add("Archive")
    assert any("Archive: not watched" in line for line in watch())
    server.folders["Junk"][1] = server.folders["INBOX"].pop(2)
    assert watch() == ["Junk/1/1: spam (learned)"]
    server.closed_folders.clear()
    assert watch() == ["Archive: 0 messages there already"]


def test_a_move_out_of_a_folder_that_cannot_be_opened_any_more_is_learned(server, watch):
    watch()
    server.folders["Archive"][1] = server.folders["INBOX"].pop(2)
    watch()
    server.closed_folders.add("Archive")
    server.folders["Junk"][1] = server.folders["Archive"].pop(1)
    assert "Junk/1/1: spam (learned)" in watch()


def test_a_folder_of_the_rules_that_cannot_be_opened_is_an_error(server, watch):
    server.closed_folders.add("Junk")
    with pytest.raises(MailServerError, match="permission denied"):
        watch()


@pytest.mark.parametrize(
    ("namespace", "delimiter", "folders", "name", "expected"),
    [
        ('(("INBOX." ".")) NIL NIL', ".", ["INBOX.Junk"], "Junk", "INBOX.Junk"),
        ('(("INBOX." ".")) NIL NIL', ".", ["INBOX.Junk"], "INBOX.Junk", "INBOX.Junk"),
        ('(("INBOX." ".")) NIL NIL', ".", ["INBOX.Junk"], "INBOX/Junk", "INBOX.Junk"),
        ('(("INBOX." ".")) NIL NIL', ".", [], "Spam", "INBOX.Spam"),
        ('(("INBOX." ".")) NIL NIL', ".", ["INBOX.a.b"], "a/b", "INBOX.a.b"),
        ('(("INBOX." ".")) NIL NIL', ".", ["Shared.Junk"], "Shared.Junk", "Shared.Junk"),
        ('(("" ".")) NIL NIL', ".", ["Work.Junk"], "Work/Junk", "Work.Junk"),
        ('(("" "/")) NIL NIL', "/", ["Work.Junk"], "Work/Junk", "Work/Junk"),
        ('(("" ".")) NIL NIL', ".", [], "Work/Junk", "Work.Junk"),
        ('(("INBOX." ".")) NIL NIL', ".", [], "Work/Junk", "INBOX.Work.Junk"),
        ('(("INBOX." ".")) NIL NIL', ".", [], "INBOX/Junk", "INBOX.Junk"),
        ('(("INBOX." ".")) NIL NIL', ".", [], "inbox.Junk", "INBOX.Junk"),
        ('(("" "/")) NIL NIL', "/", [], "M&APw-ll", "Müll"),
        ("NIL NIL NIL", "/", ["Junk"], "Junk", "Junk"),
        ('(("" "/")) NIL NIL', "/", ["M&APw-ll"], "Müll", "Müll"),
        ('(("INBOX/" "/")) NIL NIL', "/", ["INBOX/M&APw-ll"], "M&APw-ll", "INBOX/Müll"),
        ('(("" "/")) NIL NIL', "/", ["M&APw-ll"], "Mu\u0308ll", "Müll"),
        ('(("INBOX." ".")) NIL NIL', ".", ["INBOX.JUNK"], "Junk", "INBOX.JUNK"),
        ('(("" "/")) NIL NIL', "/", ["JUNK", "junk"], "Junk", "Junk"),
    ],
)
def test_folders_are_found_under_the_prefix_of_the_server(
    server, namespace, delimiter, folders, name, expected
):
    server.namespace, server.delimiter = namespace, delimiter
    server.folders = {"INBOX": {}, **{folder: {} for folder in folders}}
    account = server.account()
    assert account.canonical_name(name) == expected
    account.close()


@pytest.mark.parametrize("attribute", ["\\Important", "\\All", "\\Flagged", "\\Trash", "\\Drafts"])
def test_views_of_other_folders_are_not_listed(server, attribute):
    server.attributes = {"Archive": attribute}
    account = server.account()
    assert account.folder_names() == ["INBOX", "Junk"]
    account.close()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('() "/" [Gmail]/Spam', "[Gmail]/Spam"),
        ('() "/" INBOX/Da\tOggetto\tRicevuto', "INBOX/Da\tOggetto\tRicevuto"),
        ('() "/" Posta in uscita', "Posta in uscita"),
        ('() "/" a b c d', "a b c d"),
        ('() "/" {7}\r\nfoo\\bar', "foo\\bar"),
        ('() "/" "ab"cd"', 'ab"cd'),
        ('() "/" "ab\\"cd\\\\e"', 'ab"cd\\e'),
        ('() "/" Bills (2024)', "Bills (2024)"),
        ('() "/" Bills ("CHILDINFO" ("SUBSCRIBED"))', "Bills"),
        ('NIL "/" Bills', "Bills"),
        ("() NIL NIL", "NIL"),
        ('() "/" 2024', "2024"),
        ('() "/" "&AOA- trier"', "à trier"),
        ('() "/" "à trier"', "à trier"),
    ],
)
def test_folders_are_listed_in_any_spelling(server, line, name):
    server.list_lines = ['* LIST () "/" INBOX', f"* LIST {line}", '* LIST () "/" Junk']
    with closing(server.account()) as account:
        assert account.folder_names() == ["INBOX", name, "Junk"]
        assert account.canonical_name(name) == name
        server.folders[account._stored_name(name).encode("latin-1").decode()] = {}
        assert account.list_messages(name) == {}


@pytest.mark.parametrize(
    "line",
    [
        '() "/" ' + '("A" ' * 1000,
        '() "/" ' + '("A" ' * 180_000,
        '() "' + '" ' * 4000,
        "(" * 100_000,
    ],
    ids=["nested", "long", "quotes", "open"],
)
def test_a_hostile_answer_to_list_hides_no_folder(server, line):
    server.list_lines = ['* LIST () "/" INBOX', f"* LIST {line}", '* LIST () "/" Junk']
    with closing(server.account()) as account:
        names = account.folder_names()
    assert (names[0], names[-1]) == ("INBOX", "Junk")


@pytest.mark.parametrize(
    "lines",
    [
        lambda uids: [f"SEARCH {uid}" for uid in uids],
        lambda uids: ["SEARCH", *(f"SEARCH {uid}" for uid in uids)],
        lambda uids: [f"SEARCH   {'  '.join(uids)} "],
        lambda uids: [f'ESEARCH (TAG "A1") UID ALL {",".join(uids)}'],
        lambda uids: ['ESEARCH (TAG "A1") UID COUNT 2 ALL 2:2,5:5 MODSEQ 7'],
        lambda uids: ["ESEARCH UID ALL 2", "ESEARCH UID all 5"],
        lambda uids: ["SEARCH 2", "ESEARCH UID ALL ,5,:,7:"],
    ],
)
def test_searches_are_read_in_any_shape(server, lines):
    """Courier answers with several lines, and servers of IMAP4rev2 with ESEARCH."""
    server.search_lines = lines
    with closing(server.account()) as account:
        assert list(account.list_messages("INBOX")) == ["1/2", "1/5"]


@pytest.mark.parametrize(
    ("capabilities", "secret"),
    [
        ("IMAP4rev1", PASSWORD),
        ("IMAP4rev1 AUTH=PLAIN", PASSWORD),
        ("IMAP4rev1 AUTH=PLAIN LOGINDISABLED", PASSWORD),
        ("IMAP4rev1 AUTH=PLAIN", "päßwörd"),
        ("IMAP4rev1 AUTH=PLAIN SASL-IR LOGINDISABLED", "пароль"),
    ],
)
def test_logins_take_the_way_that_the_server_offers(server, monkeypatch, capabilities, secret):
    server.capabilities, server.password = capabilities, secret
    monkeypatch.setenv("STREAMNB_PASSWORD", secret)
    account = server.account()
    assert "Junk" in account.folder_names()
    account.close()


def test_a_server_that_knows_the_client_gets_no_login(server):
    server.greeting = "* PREAUTH ready"
    server.password = ""  # no login has it
    with closing(server.account()) as account:
        assert account.has_folder("Junk")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("EXAMINE", "INBOX: EXAMINE command error: BAD Command Error. 10"),
        ("SEARCH", "Command Error. 10"),
        ("FETCH", "FETCH command error: BAD Command Error. 10"),
    ],
)
def test_the_reason_of_a_server_is_printed_as_text(server, command, reason):
    server.refused_command = command
    with closing(server.account()) as account:
        with pytest.raises(MailServerError) as refused:
            account.list_messages("INBOX")
        assert str(refused.value) == f"{account.name}: {reason}"


def token_account(server, command):
    url = f"imap://{USER}@127.0.0.1:{server.server_address[1]}/INBOX"
    return ImapAccount(parse_imap_url(url), Access(plaintext=True, token_command=command))


def test_each_login_gets_a_new_token(server, tmp_path, monkeypatch):
    """Tokens expire, so a lost connection needs another one. No password is needed."""
    monkeypatch.delenv("STREAMNB_PASSWORD")
    server.capabilities = "IMAP4rev1 AUTH=XOAUTH2 LOGINDISABLED"
    token = tmp_path / "token"
    token.write_text(f"{PASSWORD}\n")
    account = token_account(server, f"cat {token}")
    assert "Junk" in account.folder_names()
    server.password = "renewed"  # noqa: S105 (of a server that lives for a test)
    with pytest.raises(MailServerError, match=r"the login was refused.*invalid token"):
        account.connect()
    token.write_text("renewed\n")
    assert "Junk" in account.folder_names()
    account.close()


def test_a_token_command_that_fails_is_tried_again(server, tmp_path):
    """Its server may be away: a watcher must not end."""
    server.capabilities = "IMAP4rev1 AUTH=XOAUTH2"
    token = tmp_path / "token"
    with pytest.raises(MailServerError, match="--token-command: exit status 1"):
        token_account(server, f"cat {token}")
    with pytest.raises(MailServerError, match="--token-command: ended by signal 2"):
        token_account(server, "sh -c 'kill -INT $$'")
    with pytest.raises(MailServerError, match=f"--token-command: cannot run '{tmp_path}/none': "):
        token_account(server, f"{tmp_path}/none")
    with pytest.raises(MailServerError, match="--token-command: the command is empty"):
        token_account(server, " ")


@pytest.mark.parametrize("capabilities", ["IMAP4rev1 ID", "IMAP4rev1"])
def test_a_server_that_wants_a_name_gets_it(server, capabilities):
    server.capabilities = capabilities
    server.needs_id = "ID" in capabilities.split()
    account = server.account()
    assert len(account.list_messages("INBOX")) == 2
    account.close()


@pytest.mark.parametrize(
    ("names", "marked", "expected"),
    [
        (["INBOX", "[Gmail]/Spam", "Work"], "[Gmail]/Spam", "[Gmail]/Spam"),
        (["INBOX", "Junk Email"], "Junk Email", "Junk Email"),
        (["INBOX", "M&APw-ll"], "M&APw-ll", "Müll"),
        (["INBOX", "Junk", "Bulk"], "Bulk", "Junk"),  # in use by an earlier watcher, perhaps
        (["INBOX", "Junk"], None, "Junk"),
        (["INBOX", "Work"], None, "Junk"),
    ],
)
def test_spam_goes_to_the_folder_that_the_server_marks(server, names, marked, expected):
    server.folders = {name: {} for name in names}
    server.attributes = {marked: r"\HasNoChildren \Junk"}
    account = server.account()
    assert account.spam_folder() == expected
    account.close()


def test_watch_uses_the_folder_that_the_server_marks(server, tmp_path):
    server.folders["Bulk"] = server.folders.pop("Junk")
    server.attributes = {"Bulk": r"\Junk"}
    url = f"imap://{USER}@127.0.0.1:{server.server_address[1]}"
    arguments = ("watch", url, "--plaintext", "--once", "--db", tmp_path / "mail.db")
    status, output, error = streamnb_command(*map(str, arguments))
    assert (status, error) == (0, "")
    assert re.search(r"watching .*: INBOX, Archive, Bulk$", output, re.M)


@pytest.mark.parametrize("has_status", [True, False])
def test_folders_without_changes_are_not_listed_again(server, watch, has_status):
    """Outlook has no CONDSTORE, and slows accounts down that list all folders at each scan."""
    server.has_status = has_status
    server.folders["Archive"][1] = ["", mail(1)]
    watch()
    first = server.fetches
    watch()
    assert (server.fetches == first) == has_status
    server.folders["Junk"][1] = server.folders["INBOX"].pop(2)
    assert watch() == ["Junk/1/1: spam (learned)"]
    server.folders["Archive"][1][0] = "$Junk"  # no counter changes
    assert watch() == ["Archive/1/1: spam (learned)"]


def test_a_move_in_two_steps_without_expunge_is_learned(server, watch):
    """The original stays, marked as deleted, and no counter of its folder changes."""
    watch()
    server.folders["Junk"][1] = ["", mail(2)]
    watch()
    server.folders["INBOX"][2][0] = r"\Deleted"
    assert watch() == ["Junk/1/1: spam (learned)"]


def test_a_message_in_place_of_another_one_is_seen(server, watch):
    watch()
    del server.folders["INBOX"][2]
    server.folders["INBOX"][6] = ["", mail(6)]
    assert any(line.startswith("INBOX/1/6: ") for line in watch())


def test_an_account_that_cannot_be_read_leaves_no_database(tmp_path):
    database = tmp_path / "mail.db"
    options = "--once", "--token-command", tmp_path / "none", "--db", database
    done = streamnb_command("watch", "imap://ann@127.0.0.1:1/", *map(str, options))
    assert (done[0], list(tmp_path.iterdir())) == (6, [])
