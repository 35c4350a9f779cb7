"""Labels of any type in files and JSON; files that give the saved objects."""

import enum
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import streamnb
from streamnb.errors import ModelFileError
from streamnb.storage import label_to_json


class Text(str, enum.Enum):  # noqa: UP042 (the older way)
    SPAM, HAM = "spam", "ham"


class Number(enum.IntEnum):
    SPAM, HAM = 1, 2


class Flags(enum.IntFlag):
    SPAM, HAM = 1, 2


class Subclass(str):
    __slots__ = ()

    def __str__(self):
        return "something else"


LABELS = {
    "str enum": (Text.SPAM, Text.HAM),
    "StrEnum": tuple(enum.StrEnum("Kind", {"SPAM": "spam", "HAM": "ham"})),
    "IntEnum": (Number.SPAM, Number.HAM),
    "IntFlag": (Flags.SPAM, Flags.HAM),
    "subclass": (Subclass("spam"), Subclass("ham")),
    "numpy": (np.str_("spam"), np.str_("ham")),
    "int": (1, 2),
    "bool": (True, False),
    "float": (0.5, 1.5),
}
by_labels = pytest.mark.parametrize("kind", LABELS)
# Each kind of model that is saved, and an example.
MODELS = {
    "MultinomialNB": (streamnb.MultinomialNB, {"a": 1}, {"b": 1}),
    "GaussianNB": (streamnb.GaussianNB, {"a": 1.0}, {"a": 2.0}),
    "CategoricalNB": (streamnb.CategoricalNB, {"a": "x"}, {"a": "y"}),
    "TextClassifier": (streamnb.TextClassifier, "free offer", "lunch"),
    "MailClassifier": (streamnb.MailClassifier, b"Subject: free", b"Subject: lunch"),
    "Classifier": (
        lambda **options: streamnb.Classifier(
            streamnb.Tokenizer(), streamnb.MultinomialNB(), **options
        ),
        "free offer",
        "lunch",
    ),
}
by_model = pytest.mark.parametrize("name", MODELS)


def trained(name, labels, **options):
    make, *messages = MODELS[name]
    model = make(**options)
    for message, label in zip(messages, labels, strict=True):
        model.learn_one(message, label)
    return model, messages


@by_model
@by_labels
def test_labels_are_saved_by_value(name, kind, tmp_path):
    labels = LABELS[kind]
    options = {"positive": labels[0]} if "Classifier" in name else {}
    model, messages = trained(name, labels, **options)
    model.save(tmp_path / "m")
    same = streamnb.load(tmp_path / "m")
    plain = [label_to_json(label)[1] for label in labels]
    assert list(same.labels) == plain
    assert {type(label) for label in same.labels} <= {str, int, bool, float}
    for message, label in zip(messages, plain, strict=True):
        assert same.predict_one(message) == label
    same.learn_one(messages[0], labels[0])  # the label of the program is still the same class
    assert len(same.labels) == 2
    if options:
        assert same.positive == plain[0]


@by_model
def test_load_gives_what_was_saved(name, tmp_path):
    model, messages = trained(name, ("spam", "ham"))
    model.save(tmp_path / "m")
    same = streamnb.load(tmp_path / "m")
    assert type(same) is type(model)
    assert same.predict_proba_one(messages[0]) == model.predict_proba_one(messages[0])
    assert type(streamnb.load(tmp_path / "m", type(model))) is type(model)
    wrong_class = streamnb.BernoulliNB if "Classifier" in name else streamnb.TextClassifier
    with pytest.raises(ModelFileError):
        streamnb.load(tmp_path / "m", wrong_class)
    if "Classifier" in name:
        bare = streamnb.load(tmp_path / "m", type(model.model))
        assert type(bare) is type(model.model)


@by_labels
def test_verdicts_are_json(kind):
    model, (message, _) = trained("TextClassifier", LABELS[kind])
    plain = json.loads(json.dumps(model.classify(message).to_dict(), allow_nan=False))
    assert plain["label"] == label_to_json(LABELS[kind][0])[1]
    assert [label for label, _ in plain["probabilities"]] == [
        label_to_json(label)[1] for label in LABELS[kind]
    ]
    assert all(isinstance(reason["feature"], str) for reason in plain["reasons"])
    assert plain["reasons"]


def test_verdicts_of_an_untrained_classifier_and_other_labels_are_json():
    json.dumps(streamnb.MailClassifier().classify(b"").to_dict(), allow_nan=False)
    model, (message, _) = trained("TextClassifier", (("a", 1), "b"))
    assert json.loads(json.dumps(model.classify(message).to_dict()))["label"] == "('a', 1)"


@pytest.mark.parametrize("name", ["TextClassifier", "MultinomialNB", "GaussianNB"])
def test_paths_of_every_type_are_one_file(name, tmp_path):
    model = getattr(streamnb, name)()
    path = tmp_path / "model.snb"
    for kind in (str, os.fsencode, Path):
        model.save(kind(path))
        assert type(streamnb.load(kind(path))) is type(model)
        assert type(type(model).load(kind(path))) is type(model)
        path.unlink()
        with pytest.raises(ModelFileError, match=rf"^{re.escape(str(path))}: .*No such file"):
            streamnb.load(kind(path))
    for call in (model.save, type(model).load):
        with pytest.raises(TypeError, match=r"str, bytes or os\.PathLike"):
            call(7)
    file = io.BytesIO()
    model.save(file)
    for load in (streamnb.load, type(model).load):
        with pytest.raises(TypeError, match=r"pass its content as io\.BytesIO\(content\)"):
            load(file.getvalue())


def test_open_files_are_read():
    file = io.BytesIO()
    model, (message, _) = trained("TextClassifier", ("spam", "ham"))
    model.save(file)
    file.seek(0)
    assert streamnb.load(file).predict_one(message) == "spam"
