"""The messages of folders and files, without what mail programs keep beside them."""

import pytest

from streamnb.mailbox.sources import messages

MAIL = b"From: a@example.org\nSubject: hi\n\nHello\n"
FOLDER_DATA = (
    b"From MAILER-DAEMON Mon Jan  1 00:00:00 2024\nFrom: Mail System Internal Data <MAILER-DAEMON@a>\n"
    b"Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\nX-IMAP: 17 2\n\nThis text is part of "
    b"the internal format of your mail folder.\n\n"
)


@pytest.mark.parametrize(
    "name",
    ["Inbox.msf", "msgFilterRules.dat", "dovecot.index.log", "dovecot-uidlist", "maildirfolder", "cyrus.index"],
)  # fmt: skip
def test_files_of_mail_programs_are_skipped(tmp_path, name):
    (tmp_path / name).write_bytes(b"// <!-- <mdb:mork:z v=1.4/> -->\nSubject: no mail\n\nbody\n")
    (tmp_path / "1.eml").write_bytes(MAIL)
    assert [entry.content for entry in messages(str(tmp_path))] == [MAIL]


@pytest.mark.parametrize("mails", [0, 1, 2])
def test_the_internal_data_of_an_mbox_is_skipped(tmp_path, mails):
    mail = b"From a@example.org Mon Jan  1 00:00:00 2024\n" + MAIL + b"\n"
    (tmp_path / "box").write_bytes(FOLDER_DATA + mails * mail)
    entries = list(messages(str(tmp_path / "box")))
    assert [b"Hello" in each.content for each in entries] == [True] * mails
