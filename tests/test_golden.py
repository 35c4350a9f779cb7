"""Files that earlier versions wrote are read, and say what they said then."""

import json
import shutil
from pathlib import Path

import pytest

import streamnb
from streamnb import Mailbox, MailClassifier
from streamnb.classifier import Classifier
from streamnb.mailbox.transfer.formats import export, import_file

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
PROBE = b"Subject: pills\n\nlunch offer now at noon"
QUESTIONS = {"multinomial": {"a": 2, "b": 1}, "gaussian": {"a": 2.0, "b": 1.0}}


@pytest.mark.parametrize("name", QUESTIONS)
def test_models_of_version_2(name, tmp_path):
    model = streamnb.load(GOLDEN / f"{name}-2.snb")
    assert model.joint_log_likelihood(QUESTIONS[name]) == EXPECTED[name]
    model.save(tmp_path / "again")
    again = streamnb.load(tmp_path / "again")
    assert again.joint_log_likelihood(QUESTIONS[name]) == EXPECTED[name]


def test_old_names_of_parameters():
    model = streamnb.load(GOLDEN / "multinomial-2.snb")
    assert (model.length_norm, model.length_norm_power) == (2.0, 0.6)


def test_a_classifier_of_version_2(tmp_path):
    classifier = Classifier.load(GOLDEN / "mail-classifier-2.snb")
    assert type(classifier) is Classifier  # it did not say of which class it was
    assert classifier.joint_log_likelihood(PROBE) == EXPECTED["classifier"]
    with pytest.raises(streamnb.errors.ModelFileError, match="not a"):
        MailClassifier.load(GOLDEN / "mail-classifier-2.snb")


def test_a_database_of_version_1(tmp_path):
    shutil.copy(GOLDEN / "mail-1.db", tmp_path / "mail.db")
    with Mailbox(tmp_path / "mail.db") as mailbox:
        assert mailbox.classify(PROBE).probabilities == EXPECTED["mailbox"]
        assert mailbox.verify() == []
        export(mailbox, str(tmp_path / "lines"))
        mailbox.learn(b"Subject: new\n\nnew", "spam")
        mailbox.undo(since=0)
        assert mailbox.verify() == []
        assert sum(counts.features for counts in mailbox.counts) == 0
    first, *lines, last = (tmp_path / "lines").read_bytes().splitlines()
    golden_first, *golden = (GOLDEN / "mail-1.jsonl").read_bytes().splitlines()
    assert lines == golden
    assert json.loads(last) == {"lines": 1 + len(golden)}
    # Only parameters are called otherwise now.
    renamed = golden_first.replace(b'"tau"', b'"length_norm"')
    renamed = renamed.replace(b'"length_power"', b'"length_norm_power"')
    assert holds(json.loads(first), json.loads(renamed))


def holds(found, expected):
    """Whether all that is expected is there; what came later may be there, too."""
    if isinstance(expected, dict):
        return all(name in found and holds(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        pairs = zip(found, expected, strict=True)
        return all(holds(one, other) for one, other in pairs)
    return found == expected


def test_lines_of_version_1(tmp_path):
    with Mailbox(tmp_path / "mail.db") as mailbox:
        import_file(mailbox, str(GOLDEN / "mail-1.jsonl"))
        assert mailbox.verify() == []
        assert mailbox.classify(PROBE).probabilities == pytest.approx(EXPECTED["mailbox"])
