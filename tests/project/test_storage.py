import io
import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamnb
from streamnb import BernoulliNB, ComplementNB, MultinomialNB
from streamnb.errors import ModelFileError, OutputError
from streamnb.storage import parse_json

MODELS = [MultinomialNB, BernoulliNB, ComplementNB]


def trained(model=MultinomialNB, **options):
    original = model(**options)
    original.learn_one({"free": 2, "now": 1, ("a", 1): 3, 7: 1, b"x": 2}, "spam")
    original.learn_one({"lunch": 1, "naïve": 2}, True, w=0.3)
    original.learn_one({"lunch": 1}, 17)
    return original


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("keep_names", [True, False])
def test_a_model_comes_back_bit_for_bit(tmp_path, model, keep_names):
    original = trained(
        model, alpha=0.3, length_norm=2.0, prior={"spam": 1, True: 2, 17: 1}, keep_names=keep_names
    )
    original.save(tmp_path / "model")
    for loaded in (streamnb.load(tmp_path / "model"), model.load(tmp_path / "model")):
        assert type(loaded) is model
        assert loaded._get_params() == original._get_params()
        assert loaded.counts == original.counts
        assert [type(label) for label in loaded.counts.labels] == [str, bool, int]
        x = {"free": 1, "lunch": 2, 7: 1}
        assert loaded.joint_log_likelihood(x) == original.joint_log_likelihood(x)
        assert loaded.top_features("spam") == original.top_features("spam")
        loaded.learn_one({"more": 1}, "spam")
        loaded.unlearn_one({"more": 1}, "spam")


def test_equal_models_give_equal_files(tmp_path):
    a, b = MultinomialNB(), MultinomialNB()
    a.learn_one({"x": 1, "y": 2}, "p")
    a.learn_one({"z": 1}, "p")
    b.learn_one({"z": 1, "w": 3}, "p")
    b.learn_one({"y": 2, "x": 1}, "p")
    b.unlearn_one({"w": 3, "z": 1}, "p")
    b.learn_one({"z": 1}, "p")
    a.save(tmp_path / "a")
    b.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_empty_model_can_be_saved(tmp_path):
    MultinomialNB().save(tmp_path / "m")
    assert MultinomialNB.load(tmp_path / "m").predict_one({"a": 1}) is None


def test_another_kind_of_model_is_refused(tmp_path):
    trained().save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="holds a MultinomialNB, not a BernoulliNB"):
        BernoulliNB.load(tmp_path / "m")


def test_an_old_file_survives_a_failed_save(tmp_path, monkeypatch):
    trained().save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space"))
    )
    with pytest.raises(OutputError, match="m: the model cannot be written: No space"):
        trained(BernoulliNB).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_places_and_labels_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        trained().save(tmp_path / "no" / "such" / "folder")
    odd = MultinomialNB()
    odd.learn_one({"a": 1}, ("a", "tuple"))
    with pytest.raises(OutputError, match="label must be str, int, bool or float"):
        odd.save(tmp_path / "m")
    assert os.listdir(tmp_path) == []


def rewritten(path, change):
    """The file with its members changed by a function of name and bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            data = change(name, source.read(name))
            if data is not None:
                target.writestr(name, data)
    return out.getvalue()


def header(**changes):
    def change(name, data):
        if name != "header.npy":
            return data
        header_fields = json.loads(np.load(io.BytesIO(data)).tobytes())
        header_fields.update(changes)
        out = io.BytesIO()
        np.save(out, np.frombuffer(json.dumps(header_fields).encode(), dtype=np.uint8))
        return out.getvalue()

    return change


def member(**changes):
    def change(name, data):
        if name != "header.npy":
            return data
        header_fields = json.loads(np.load(io.BytesIO(data)).tobytes())
        return header(view_models=[{**header_fields["view_models"][0], **changes}])(name, data)

    return change


def array(member, values):
    def change(name, data):
        if name != member:
            return data
        out = io.BytesIO()
        np.save(out, values)
        return out.getvalue()

    return change


HUGE = np.lib.format.magic(
    1, 0
) + b"v\0{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }".ljust(118)
DAMAGE = {
    "an object array": array("0.counts.npy", np.array([{}, 1], dtype=object)),
    "another type": array("0.counts.npy", np.zeros((5, 3), np.float32)),
    "another shape": array("0.counts.npy", np.zeros((5, 9))),
    "a negative count": array("0.counts.npy", np.full((7, 3), -1.0)),
    "no numbers": array("0.counts.npy", np.full((7, 3), np.nan)),
    "other counts": array("0.counts.npy", np.ones((7, 3))),
    "a huge claim": lambda name, data: HUGE if name == "0.counts.npy" else data,
    "a missing member": lambda name, data: None if name == "0.fingerprints.npy" else data,
    "repeated fingerprints": array("0.fingerprints.npy", np.zeros(7, np.uint64)),
    "names out of order": array("0.name_ends.npy", np.array([9, 1, 2, 3, 4, 5, 6], np.uint64)),
    "names beyond the end": array("0.name_ends.npy", np.full(7, 10**6, np.uint64)),
    "a foreign format": header(format="other"),
    "a newer version": header(version=5),
    "an older version": header(version=3),
    "no members": header(view_models=[]),
    "another model in it": member(model="GaussianNB"),
    "a scale that cannot be": member(scale=0.5),
    "another model": header(model="GaussianNB"),
    "a parameter that is wrong": member(parameters={"alpha": -1, "prior": "learned"}),
    "a parameter that is not there": member(parameters={"beta": 1, "prior": "learned"}),
    "repeated labels": member(labels=[["str", "a"]] * 3),
    "labels of no type": member(labels=[["list", []]] * 3),
    "fewer labels": member(labels=[["str", "a"]]),
    "another key": header(key="00"),
    "a header of another kind": member(weights="heavy"),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damaged_files_are_refused(tmp_path, change):
    trained().save(tmp_path / "m")
    (tmp_path / "m").write_bytes(rewritten(tmp_path / "m", change))
    with pytest.raises(ModelFileError, match=r".+/m: .+") as caught:
        streamnb.load(tmp_path / "m")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"PK", b"hello", b"\x80\x04N.", bytes(1000)])
def test_foreign_files_are_refused(tmp_path, data):
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match="not a streamnb model"):
        streamnb.load(tmp_path / "m")
    for missing in (tmp_path / "gone", tmp_path):
        with pytest.raises(ModelFileError, match="cannot be read"):
            streamnb.load(missing)


def test_an_archive_that_unfolds_is_refused(tmp_path):
    trained().save(tmp_path / "m")
    out = io.BytesIO()
    with (
        zipfile.ZipFile(tmp_path / "m") as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    (tmp_path / "m").write_bytes(out.getvalue())
    with pytest.raises(ModelFileError, match="compressed"):
        streamnb.load(tmp_path / "m")


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_any_damage_is_an_error_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("models") / "m"
    trained().save(path)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)) | st.just(len(raw)))
    path.write_bytes(raw[:cut])
    try:
        model = streamnb.load(path)
    except ModelFileError:
        return
    assert sum(model.predict_proba_one({"free": 1}).values()) == pytest.approx(1)
    assert isinstance(model.top_features(model.counts.labels[0]), list)


def test_a_key_twice_among_many_is_found_in_one_pass():
    keys = [f'"k{i}": 1' for i in range(100_000)]  # a search for each key would take minutes
    with pytest.raises(ValueError, match="'k99999' occurs twice"):
        parse_json("{" + ", ".join([*keys, keys[-1]]) + "}")
