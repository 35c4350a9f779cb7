"""Files and figures stay what they are: a change of them is one on purpose (tests/golden/make.py)."""

import json
import shutil

import pytest
from golden.make import GOLDEN, PROBES, models

import streamnb
from streamnb import Mailbox, MailClassifier
from streamnb.mailbox.transfer.formats import export, import_file

EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("name", models())
def test_a_model_learns_and_is_written_as_ever(name, tmp_path):
    golden = (GOLDEN / f"{name}.snb").read_bytes()
    models()[name].save(tmp_path / "new")
    assert (tmp_path / "new").read_bytes() == golden


@pytest.mark.parametrize("name", models())
def test_a_model_is_read(name, tmp_path):
    load = MailClassifier.load if name == "mail" else streamnb.load
    model = load(GOLDEN / f"{name}.snb")
    assert model.joint_log_likelihood(PROBES[name]) == EXPECTED[name]
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (GOLDEN / f"{name}.snb").read_bytes()


def test_a_database_and_its_lines_are_read(tmp_path):
    shutil.copy(GOLDEN / "mail.db", tmp_path / "mail.db")
    with Mailbox(tmp_path / "mail.db") as mailbox:
        assert mailbox.verify() == []
        assert mailbox.classify(PROBES["mail"]).probabilities["ham"] == 0.05737271884567482
        export(mailbox, str(tmp_path / "lines"))
    assert (tmp_path / "lines").read_bytes() == (GOLDEN / "mail.jsonl").read_bytes()
    with Mailbox(tmp_path / "other.db") as mailbox:
        import_file(mailbox, str(GOLDEN / "mail.jsonl"))
        assert mailbox.verify() == []
        assert mailbox.classify(PROBES["mail"]).probabilities["ham"] == pytest.approx(
            0.05737271884567482
        )
