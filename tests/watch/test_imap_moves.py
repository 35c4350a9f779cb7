"""Moves by two mail programs among eight folders of a real Dovecot, while streamnb watches."""

import contextlib
import itertools
import random

import pytest
from servers import PASSWORD, Dovecot, dovecot_version, mail

from streamnb import Mailbox
from streamnb.mailbox.digest import digest
from streamnb.mailbox.watch.access import Access, parse_imap_url
from streamnb.mailbox.watch.imap import ImapAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

pytestmark = pytest.mark.dovecot
users = map("mover{}".format, itertools.count())
CLASSES = {"Junk": "spam", "Work": "work", "Rechnungen für Müller": "bills"}
FOLDERS = ("INBOX", *CLASSES, "Junk/Old", "Archive", "Archive/2024", "Trash")
MESSAGES = range(8)
VIEWS = {
    "2.3": """
mail_plugins = virtual
namespace views {{
  prefix = Views/
  separator = /
  hidden = {hidden}
  location = virtual:{base}/views:INDEX=~/views
}}
""",
    "2.4": """
mail_plugins = virtual
namespace views {{
  prefix = Views/
  separator = /
  hidden = {hidden}
  mail_driver = virtual
  mail_path = {base}/views
  mail_index_path = ~/views
}}
""",
}


class Programs:
    """A user's two mail programs, and the watcher of the account.

    The first program moves by MOVE; the second copies a message and marks the original as deleted.
    """

    def __init__(self, server, folder, **plan):
        user = next(users)
        self.clients = [server.client(user), server.client(user)]
        for name in FOLDERS[1:]:
            if not self.clients[0].folder_exists(name):
                self.clients[0].create_folder(name)
        self.box = Mailbox(folder / "mail.db")
        self.access = Access(ca_file=str(server.certificate))
        self.url = f"imap://{user}@localhost:{server.port}/"
        self.plan_options = plan
        self.account = None
        self.restart()

    def restart(self):
        """Create a new watcher, as after a restart or with --once."""
        if self.account is not None:
            self.account.close()
        self.account = ImapAccount(parse_imap_url(self.url), self.access)
        self.watcher = Watcher(self.box, self.account, self.plan(), lambda line: None)

    def plan(self):
        """Return the plan for the folders that there are, which `watch` makes before each scan."""
        others = tuple(self.account.folder_names())
        return FolderPlan("INBOX", CLASSES, others, **self.plan_options)

    def deliver(self, message):
        self.clients[0].append("INBOX", message)

    def move(self, client_index, number, source, target):
        client = self.clients[client_index]
        client.select_folder(source)
        uids = client.search(["SUBJECT", f"m{number}", "UNDELETED"])
        assert len(uids) == 1
        if client_index == 0:
            client.move(uids, target)
        else:
            client.copy(uids, target)
            client.add_flags(uids, [b"\\Deleted"])

    def label(self, number, words="hello there"):
        current = self.box.label_of(digest(mail(number, words)))
        return None if current is None else current[0]

    def close(self):
        self.account.close()
        self.box.close()
        for client in self.clients:
            with contextlib.suppress(Exception):
                client.logout()


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("STREAMNB_PASSWORD", PASSWORD)


def class_folder(folder):
    return "Junk" if folder.startswith("Junk/") else folder


def label_after(label, previous, folder, was_just_there):
    """Return the label of a message that a person moved, by the table of `labels.md`.

    `previous` is the folder where the watcher last saw it.
    """
    if folder in CLASSES:
        return label if class_folder(previous) == folder else CLASSES[folder]
    if folder == "INBOX" and class_folder(previous) in CLASSES and was_just_there:
        return "ham" if label in (None, "ham") else None
    return label


@pytest.mark.parametrize("is_once", [False, True], ids=["one watcher", "a watcher for each look"])
@pytest.mark.parametrize("seed", range(2))
def test_moves_of_two_programs_among_eight_folders_are_learned(server, tmp_path, seed, is_once):
    programs = Programs(server, tmp_path)
    programs.watcher.scan()
    for number in MESSAGES:
        programs.deliver(mail(number))
    programs.watcher.scan()
    rng = random.Random(seed)
    folders = dict.fromkeys(MESSAGES, "INBOX")
    last_seen = dict.fromkeys(MESSAGES, ("INBOX", 0))  # where the watcher saw it last, and when
    labels = dict.fromkeys(MESSAGES)
    history = []
    for look in range(1, 30):
        for client_index, number in enumerate(rng.sample(MESSAGES, 2)):
            target = rng.choice([name for name in FOLDERS if name != folders[number]])
            programs.move(client_index, number, folders[number], target)
            history.append((look, number, folders[number], target))
            previous, last_scan = last_seen[number]
            labels[number] = label_after(labels[number], previous, target, last_scan == look - 1)
            folders[number] = target
        if is_once:
            programs.restart()
        programs.watcher.scan()
        for number in MESSAGES:
            if folders[number] != "Trash":  # which is not listed
                last_seen[number] = folders[number], look
        assert {number: programs.label(number) for number in MESSAGES} == labels, history
    assert programs.box.verify() == []
    assert {"spam", "work", "bills"} & set(labels.values())
    programs.close()


def test_streamnb_and_two_programs_move_the_same_mail(server, tmp_path):
    programs = Programs(server, tmp_path, move=True)
    for i in range(70):
        programs.box.learn(mail(1000 + i, "cheap pills buy now"), "spam")
        programs.box.learn(mail(2000 + i, "lunch at noon with ann"), "ham")
    programs.watcher.scan()
    for number in (1, 2, 3):
        programs.deliver(mail(number, "cheap pills buy now"))
    programs.deliver(mail(4, "lunch at noon with ann"))
    programs.watcher.scan()  # which moves three into Junk
    assert programs.label(1, "cheap pills buy now") is None, "its own move is no person's word"
    programs.move(0, 1, "Junk", "INBOX")
    programs.move(1, 2, "Junk", "Work")
    programs.move(0, 3, "Junk", "Archive/2024")
    programs.move(1, 4, "INBOX", "Junk")
    programs.restart()
    programs.watcher.scan()
    labels = [programs.label(number, "cheap pills buy now") for number in (1, 2, 3)]
    assert labels == ["ham", "work", None]
    assert programs.label(4, "lunch at noon with ann") == "spam"
    programs.watcher.scan()  # and what a person moved stays where it is
    programs.clients[0].select_folder("INBOX", readonly=True)
    assert len(programs.clients[0].search(["SUBJECT", "m1", "UNDELETED"])) == 1
    assert programs.box.verify() == []
    programs.close()


@pytest.fixture(scope="module", params=["no", "yes"], ids=["shown", "hidden"])
def server_with_views(request):
    """A server with two folders that show mail of others, in a namespace that it names or not."""

    def configuration(base):
        for name, terms in (("All", "all"), ("Unread", "unseen")):
            folder = base / "views" / name
            folder.mkdir(parents=True)
            (folder / "dovecot-virtual").write_text(f"*\n-Views/*\n  {terms}\n")
        return VIEWS[dovecot_version()].format(base=base, hidden=request.param)

    server = Dovecot(configuration=configuration)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("steps", "label"),
    [
        ("deliver INBOX, look, move INBOX>Junk, look", "spam"),
        ("deliver INBOX, look, read INBOX, look, move INBOX>Junk, look", "spam"),
        ("deliver INBOX, look, copy INBOX>Junk, look, delete INBOX, look", "spam"),
        ("deliver Junk, look, read Junk, look", None),
        ("deliver Junk, look, delete Junk, look", None),
        ("deliver Junk, look, read Junk, move Junk>INBOX, look", "ham"),
        ("deliver Junk, look, move Junk>Archive, look", None),
        ("deliver INBOX, look, move INBOX>Junk, look, move Junk>INBOX, look, read INBOX, look", None),
        ("judge, deliver INBOX, look, look, read Junk, look", None),
        ("deliver INBOX, look, judge, look", None),
    ],
)  # fmt: skip
def test_views_of_other_folders_give_no_label(server_with_views, tmp_path, steps, label):
    programs = Programs(server_with_views, tmp_path, move=True)
    client = programs.clients[1]
    is_spam = False
    for step in (*steps.split(", "), "look"):
        action, _, folder = step.partition(" ")
        if action == "look":
            programs.watcher.plan = programs.plan()
            target = "Junk" if is_spam else None
            programs.watcher._verdict = lambda location, message, target=target: (
                ("", target, None) if location.folder == "INBOX" else ("", None, None)
            )
            programs.watcher.scan()
        elif action == "judge":
            is_spam = True
        elif action == "deliver":
            client.append(folder, mail(1))
        elif action == "move":
            programs.move(0, 1, *folder.split(">"))
        elif action == "copy":
            client.select_folder(folder.split(">")[0])
            client.copy(client.search(), folder.split(">")[1])
        else:
            client.select_folder(folder)
            client.add_flags(client.search(), [b"\\Seen" if action == "read" else b"\\Deleted"])
            client.expunge()
    assert programs.label(1) == label
    programs.close()


@pytest.mark.parametrize("is_once", [False, True], ids=["one watcher", "a watcher for each look"])
def test_a_renamed_folder_moves_no_message(server, tmp_path, is_once):
    programs = Programs(server, tmp_path)
    client = programs.clients[0]
    for number, folder in enumerate(("Junk", "Archive")):
        client.append(folder, mail(number))
    programs.watcher.scan()
    for step in (
        (("rename", "Junk", "Old junk"), ("create", "Junk")),
        (("delete", "Junk"), ("rename", "Old junk", "Junk")),
        (("rename", "Junk", "Old junk"), ("rename", "Archive", "Junk")),
        *2 * [(("rename", "Junk", "x"), ("rename", "Work", "Junk"), ("rename", "x", "Work"))],
    ):
        for action, *names in step:
            getattr(client, f"{action}_folder")(*names)
        if is_once:
            programs.restart()
        programs.watcher.plan = programs.plan()
        programs.watcher.scan()
        assert [programs.label(number) for number in range(2)] == [None, None]
    programs.move(0, 1, "Junk", "INBOX")
    programs.watcher.scan()
    assert programs.label(1) == "ham"
    programs.close()
