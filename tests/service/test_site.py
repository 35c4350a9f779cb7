"""A site by the guide: three domains, five users, aliases, moves, log, metrics, and a restart."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from ports import free_port
from servers import dovecot_version
from serving import HAM, SPAM, Web, poll
from test_dovecot_moves import install_moves, labels, make_token, moves_configuration
from test_mail_server import STAMPS, Site, block, dovecot_configuration, train, wait_for

pytestmark = pytest.mark.dovecot

USERS = ["ann@example.org", "bob@example.org", "bob@other.test", "cat@other.test", "dan@third.test"]
ALIASES = "info@third.test ann@example.org\n@www.example.org @example.org\n"
# Dovecot's settings in Debian 13: by default for logins, and in `20-lmtp.conf` for deliveries.
DEBIAN_13 = """
auth_username_format = %{user | lower}
protocol lmtp {
  auth_username_format = %{user | username | lower}
}
"""
DOMAINS = "example.org other.test third.test www.example.org"


class ManyUsersSite(Site):
    """A site with users of three domains, whose moves teach."""

    user = USERS[0]

    def __init__(self, repository, tmp_path):
        self.http_port = free_port()
        super().__init__(repository, tmp_path, "many-users")

    def dovecot_configuration(self, base):
        text = dovecot_configuration(self.repository, "sieve-folders", base)
        text += moves_configuration(self.repository, base)
        if dovecot_version() == "2.3":
            return f"{text}\nauth_username_format = %u\n"
        return text + DEBIAN_13 + block(self.repository, "full-address-configuration-2.4")

    def many_users(self, tmp_path):
        services, settings, command = self.lmtp(tmp_path)
        self.users = self.base / "users"
        self.environment["STREAMNB_USERS"] = str(self.users)
        install_moves(self.repository, self.dovecot, self.users, self.http_port)
        aliases = tmp_path / "aliases"
        aliases.write_text(ALIASES)
        self.route = "lmtp"  # the transport is streamnb
        options = ["--full-address", "--aliases", aliases, "--http", f"127.0.0.1:{self.http_port}"]
        return services, f"{settings}mydestination = {DOMAINS}\n", [*command, *options]


@pytest.fixture
def many_users(repository, tmp_path):
    site = ManyUsersSite(repository, tmp_path)
    yield site
    site.close()


def mark(content):
    match = re.search(rb"^X-Streamnb: (\w+),", content, re.M)
    return match and match[1].decode()


def recipients_of_log(path, text):
    lines = [line for line in path.read_text().splitlines() if text in line]
    return Counter(re.search(r"recipient=(\S+)", line)[1] for line in lines)


def test_a_site_of_three_domains_by_the_guide(many_users, tmp_path):
    site = many_users
    wait_for(site.filter_port)
    log = tmp_path / "serve.log"

    def delivered(user, folder=""):
        return site.delivered(folder, user)

    # No mailbox is trained: mail passes unmarked, and the log has a line for each recipient.
    site.send([STAMPS % 1 + HAM % 700], USERS)
    poll(lambda: all(len(delivered(user)) == 1 for user in USERS))
    assert not any(mark(content) for user in USERS for content in delivered(user))
    poll(lambda: recipients_of_log(log, "action=unmarked") == Counter(USERS))

    # Each user has a database: two users of one name have two, and opposite, opinions.
    for user in USERS:
        swap = user == "bob@other.test"
        classes = {"spam": HAM, "ham": SPAM} if swap else {"spam": SPAM, "ham": HAM}
        train(site.users / f"{user}.db", classes)
        make_token(site.users, user)
    site.send([STAMPS % 2 + SPAM % 502], [*USERS, "info@third.test", "bob@www.example.org"])
    folders = {user: "" if user == "bob@other.test" else "Junk" for user in USERS}
    folders |= {"info@third.test": "Junk", "bob@www.example.org": "Junk"}
    poll(lambda: all(delivered(user, folder) for user, folder in folders.items()))
    for user, folder in folders.items():
        marks = [mark(content) for content in delivered(user, folder)]
        assert marks[-1:] == (["Ham"] if user == "bob@other.test" else ["Spam"]) or "Ham" in marks

    # A user moves a message in a mail program: their database learns, and no other one.
    before = {user: labels(site.users / f"{user}.db") for user in USERS}
    client = site.dovecot.client("cat@other.test")
    assert "Junk" in {name for _, _, name in client.list_sub_folders()}
    client.select_folder("INBOX")
    client.move(client.search(), "Junk")
    client.logout()
    after = {"ham": 120, "spam": 121}
    poll(lambda: labels(site.users / "cat@other.test.db") == after)
    assert {user: labels(site.users / f"{user}.db") for user in USERS} == {
        **before, "cat@other.test": after
    }  # fmt: skip

    # The log has a line for each message and recipient, with Postfix's queue id.
    lines = log.read_text().splitlines()
    ids = {re.search(r"queue_id=(\S+)", line)[1] for line in lines if "message_id=<2@" in line}
    postfix_log = (site.postfix.base / "log").read_text()
    assert len(ids) == 1
    assert f" {ids.pop()}: from=<x@example.net>" in postfix_log
    scraper = Web(site.http_port, (site.users / "metrics.token").read_text().strip())
    metrics = scraper("GET", "/metrics")[1]
    assert 'streamnb_messages_total{class="spam",listener="lmtp",sure="yes"} 6.0' in metrics
    assert 'streamnb_messages_total{class="ham",listener="lmtp",sure="yes"} 1.0' in metrics

    # An upgrade under load: every message comes once.
    numbers = range(1000, 1060)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(
            site.send, [STAMPS % n + HAM % n for n in numbers], ["dan@third.test"]
        )
        for _ in range(2):
            site.stop()
            site.start()
            wait_for(site.filter_port)
        sending.result()

    def numbers_of_dan():
        contents = b"".join(delivered("dan@third.test") + delivered("dan@third.test", "Junk"))
        return sorted(map(int, re.findall(rb"lunch (1\d{3})", contents)))

    poll(lambda: len(numbers_of_dan()) >= len(numbers), 60)
    assert numbers_of_dan() == list(numbers)
    # No accepted connection ended before its message; Postfix would hold the mail for 5 minutes.
    postfix_log = (site.postfix.base / "log").read_text()
    assert not re.findall(r"lost connection .* while sending (?:XFORWARD|MAIL|RCPT)", postfix_log)
