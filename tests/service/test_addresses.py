"""Users by their mail addresses."""

import os
import re
import smtplib
import subprocess

import pytest
from serving import SPAM, train

from streamnb import Mailbox
from streamnb.errors import ConfigError
from streamnb.mailbox.service.addresses import AddressBook
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError
from streamnb.mailbox.site_model import SiteModel

ALIASES = """
# three domains, one of them an alias of another
info@example.org    ann@example.org
@example.net        @example.org
@shop.test          shop
bob@shop.test       bob@example.org
ann+desk@other.test desk
@bücher.test        books
"""


@pytest.fixture
def aliases(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMNB_USERS", str(tmp_path))
    path = tmp_path / "aliases"
    path.write_text(ALIASES)
    return path


@pytest.mark.parametrize(
    ("address", "by_name", "by_address"),
    [
        ("ann@example.org", "ann", "ann@example.org"),
        ("Ann+lists@Example.ORG", "ann", "ann@example.org"),
        ("ann", "ann", "ann"),
        ("bob@other.test", "bob", "bob@other.test"),
        ('"odd@name"@other.test', '"odd@name"', '"odd@name"@other.test'),
        ("info@example.org", "ann@example.org", "ann@example.org"),
        ("INFO+x@example.net", "ann@example.org", "ann@example.org"),
        ("cat@example.net", "cat", "cat@example.org"),
        ("anybody@shop.test", "shop", "shop"),
        ("bob@shop.test", "bob@example.org", "bob@example.org"),
        ("", "", ""),
        # spellings of one address
        ('"Bob"@other.test', "bob", "bob@other.test"),
        ('"Bob+x.y"@other.test', "bob", "bob@other.test"),
        ("bob@other.test.", "bob", "bob@other.test"),
        ("@a.test,@b.test:bob@other.test", "bob", "bob@other.test"),
        ("bob@café.test", "bob", "bob@xn--caf-dma.test"),
        ("bob@cafe\u0301.test", "bob", "bob@xn--caf-dma.test"),
        ("BOB@XN--CAF-DMA.test", "bob", "bob@xn--caf-dma.test"),
        ("bob@[192.0.2.1]", "bob", "bob@[192.0.2.1]"),
        ("jose\u0301@other.test", "josé", "josé@other.test"),
        # extensions
        ("+bob@other.test", "+bob", "+bob@other.test"),
        ("bob+@other.test", "bob", "bob@other.test"),
        ("bob+a+b@other.test", "bob", "bob@other.test"),
        ("ann+desk@other.test", "desk", "desk"),
        ("ann+else@other.test", "ann", "ann@other.test"),
        ("any@bücher.test", "books", "books"),
        ("any@xn--bcher-kva.test", "books", "books"),
    ],
)
def test_an_address_has_one_user(aliases, address, by_name, by_address):
    assert AddressBook(False, str(aliases)).user(address) == by_name
    assert AddressBook(True, str(aliases)).user(address) == by_address


@pytest.mark.parametrize(
    ("delimiters", "address", "user"),
    [
        ("-", "bob-lists@a.test", "bob"),
        ("-", "bob+lists@a.test", "bob+lists"),
        ("+-", "bob+a-b@a.test", "bob"),
        ("+-", "bob-a+b@a.test", "bob"),
        ("-", "mary-ann@a.test", "mary-ann"),  # she has a database
        ("-", "mary-ann-lists@a.test", "mary"),
        ("", "bob+lists@a.test", "bob+lists"),
    ],
)
def test_a_site_has_its_own_delimiters(tmp_path, monkeypatch, delimiters, address, user):
    monkeypatch.setenv("STREAMNB_USERS", str(tmp_path))
    Mailbox(tmp_path / "mary-ann.db").close()
    assert AddressBook(delimiters=delimiters).user(address) == user


@pytest.mark.parametrize(
    "address", ["josé@a.test", "SRS0=hh=tt=b.test=ann@a.test", '"two words"@a.test', "a" * 250]
)
def test_a_recipient_without_a_database_gets_the_verdict_of_the_site(
    tmp_path, monkeypatch, address
):
    """Such as users with letters beyond ASCII, and bounces to rewritten senders."""
    monkeypatch.setenv("STREAMNB_USERS", str(tmp_path))
    with Mailbox(tmp_path / "site.db") as site:
        train(site, 60)
    mailboxes = Mailboxes(None, SiteModel(tmp_path / "site.db"))
    user = mailboxes.addresses.user(address)
    response = mailboxes.judge(user, SPAM % 99, None)
    mailboxes.record(user, SPAM % 99, response, "lmtp")
    assert response.mark == "S"
    assert [path.name for path in tmp_path.glob("*.db")] == ["site.db"]
    mailboxes.close()
    with pytest.raises(NoMailboxError):
        Mailboxes(None).judge(user, SPAM % 99, None)


def test_equal_local_parts_of_two_domains_are_two_users():
    users = {AddressBook(True).user(f"bob@{domain}") for domain in ("a.test", "b.test")}
    assert len(users) == 2


@pytest.mark.parametrize(
    "line", ["ann@example.org", "a@b c d", "ann ann@example.org", "a@b x\na@b y", "a@b @c"]
)
def test_an_error_names_a_line_that_is_not_an_alias(tmp_path, line):
    path = tmp_path / "aliases"
    path.write_text(f"# comment\n{line}\n")
    with pytest.raises(ConfigError, match=r"aliases:[23]: ") as error:
        AddressBook(aliases=str(path))
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        AddressBook(aliases=str(tmp_path / "none"))


def test_aliases_are_read_again_when_they_change(aliases):
    warnings = []
    book = AddressBook(aliases=str(aliases), warn=warnings.append)
    assert book.user("info@example.org") == "ann@example.org"
    aliases.write_text("info@example.org bob\n")
    assert book.user("info@example.org") == "bob"
    aliases.write_text("nonsense\n")
    assert book.user("info@example.org") == "bob"
    aliases.unlink()
    assert book.user("info@example.org") == "bob"
    assert len(warnings) >= 2


def rename_users(repository, users, marker):
    """Run the function of the guide for many users, and the commands after a marker."""
    guide = (repository / "docs" / "guides" / "many-users.md").read_text(encoding="utf-8")
    scripts = [
        re.search(rf"<!-- {name} -->\n```sh\n(.*?)```", guide, re.S)[1]
        for name in ("rename-user", marker)
    ]
    script = "".join(scripts).replace("/var/lib/streamnb/users", str(users))
    return subprocess.run(["sh", "-euc", script], check=True, capture_output=True, text=True).stderr


def test_databases_move_to_whole_addresses_by_the_guide(repository, tmp_path):
    users = tmp_path / "users"
    for name in ("ann", "bob", "cat@other.test", "site"):
        with Mailbox(users / f"{name}.db") as box:
            box.learn(SPAM % len(name), "spam")
        (users / f"{name}.db.token").write_text(name)
    (users / "bob.db-wal").touch()
    assert rename_users(repository, users, "rename-users") == ""
    names = ["ann@example.org", "bob@example.org", "cat@other.test", "site"]
    assert sorted(path.name for path in users.glob("*.db")) == [f"{name}.db" for name in names]
    assert not (users / "bob.db-wal").exists()
    for name in names:
        assert (users / f"{name}.db.token").exists()
        with Mailbox(users / f"{name}.db", create=False) as box:
            assert box.classifier.messages()["spam"] == 1


def test_a_user_and_a_domain_are_renamed_by_the_guide(repository, tmp_path):
    for name in ("ann", "joann", "anna.org", "bob@example.org", "cat@other.test"):
        (tmp_path / f"{name}.db").touch()
        (tmp_path / f"{name}.db.token").touch()
    assert rename_users(repository, tmp_path, "rename") == ""
    names = ["anna", "anna.org", "bob@example.com", "cat@other.test", "joann"]
    expected = [f"{name}.db{end}" for name in names for end in ("", ".token")]
    assert sorted(os.listdir(tmp_path)) == sorted(expected)


def test_no_user_is_renamed_to_a_user_with_a_database(repository, tmp_path):
    """SQLite would write the changes in one user's -wal file to the other user's database."""
    files = ["ann.db", "ann.db-wal", "anna.db", "bob@example.com.db", "bob@example.org.db-wal"]
    files.append("bob@example.org.db")
    for name in files:
        (tmp_path / name).touch()
    assert rename_users(repository, tmp_path, "rename").splitlines() == [
        "ann is not renamed: anna.db exists",
        "bob@example.org is not renamed: bob@example.com.db exists",
    ]
    assert sorted(os.listdir(tmp_path)) == sorted(files)


def test_mail_of_three_domains_is_classified_by_its_owners(serve, lmtp_sink, tmp_path, aliases):
    users, path = tmp_path / "users", tmp_path / "in"
    for name, labels in (("bob@example.org", ("spam", "ham")), ("bob@other.test", ("ham", "spam"))):
        with Mailbox(users / f"{name}.db") as box:
            train(box, labels=labels)
    serve("--users", "--full-address", "--aliases", aliases, "--lmtp", path, "--next",
          lmtp_sink.address, env={**os.environ, "STREAMNB_USERS": str(users)})  # fmt: skip
    recipients = ["bob@example.org", "bob@other.test", "bob@shop.test", "bob@example.net"]
    with smtplib.LMTP() as client:
        client.connect(str(path))
        client.sendmail("a@b.c", recipients, SPAM % 900)
        for _ in recipients[1:]:
            client.getreply()
    delivered = {name: content for names, content in lmtp_sink.messages for name in names}
    marks = {name: content.split(b",")[0].split()[1] for name, content in delivered.items()}
    assert marks == {
        "bob@example.org": b"Spam", "bob@other.test": b"Ham", "bob@shop.test": b"Spam",
        "bob@example.net": b"Spam",
    }  # fmt: skip
