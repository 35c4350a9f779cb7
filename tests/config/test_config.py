"""Sections of a configuration: the data they read, refuse and write."""

import json
import pickle

import numpy as np
import pytest
from commands import streamnb_command

from streamnb import MixedNB, MultinomialNB, Tokenizer
from streamnb.cli.replay import make_config
from streamnb.config import build
from streamnb.config.experiment import build_experiment
from streamnb.config.sections import Section, key, list_type, mapping_type, section_type
from streamnb.config.yaml_files import read_yaml, resolve_paths, set_key
from streamnb.constraints import Integer, Text
from streamnb.errors import ConfigError
from streamnb.parameters import parameters_from_json, parameters_to_json


class Point(Section):
    kind: str = key(Text(), default="point")
    corner: tuple[int, ...] = key(list_type(Integer(0), 2))
    names: dict[str, int] = key(mapping_type(Integer()), default={})


class Circle(Section):
    kind: str = key(Text(), default="circle")
    middle: Point = key(section_type(Point))
    radius: int = key(Integer(), default=1)


shape = section_type(Point, Circle, default="circle")


def test_sections_read_and_write_plain_data():
    section = shape("shape", {"middle": {"corner": [1, 2], "names": {"a": 3}}})
    assert isinstance(section, Circle)
    assert (section.middle.corner, section.middle.names, section.radius) == ((1, 2), {"a": 3}, 1)
    assert section.explicit_keys == {"middle"}
    assert section.to_dict() == {
        "kind": "circle",
        "middle": {"kind": "point", "corner": [1, 2], "names": {"a": 3}},
        "radius": 1,
    }
    assert shape("", section.to_dict()) == section == shape("", section)
    assert section != section.with_changes(radius=2)
    assert Point(corner=(1, 2)) == Point.from_dict("", {"corner": [1, 2]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "s: expected keys and values"),
        (None, "s.middle: missing"),
        ({"middle": None}, "s.middle.corner: missing"),
        ({"middle": {"corner": [1]}}, r"s.middle.corner: \[1\] is not a list of 2 values or more"),
        ({"middle": {"corner": [1, "2"]}}, r"s.middle.corner\[1\]: '2' is not a whole number"),
        (
            {"middle": {"corner": [1, 2], "names": [1]}},
            r"s.middle.names: \[1\] is not a mapping of",
        ),
        (
            {"middle": {"corner": [1, 2], "names": {1: 2}}},
            "s.middle.names: 1 is not a name; put it in",
        ),
        ({"middle": {"corner": [1, 2], "names": {"": 2}}}, "s.middle.names: '' is not a name"),
        ({"kind": "square"}, "s.kind: 'square' is not one of point, circle"),
        ({"kind": []}, r"s.kind: \[\] is not one of"),
        ({None: 1}, "s.null: unknown key"),
        ({"raduis": 1}, "s.raduis: unknown key; did you mean 'radius'"),
    ],
)
def test_wrong_data_is_refused_with_its_path(data, message):
    with pytest.raises(ValueError, match=message):
        shape("s", data)


def test_configurations_are_immutable():
    config = build({"model": {"kind": "multinomial", "prior": {"a": 1, "b": 3}}})
    with pytest.raises(AttributeError, match="cannot be changed"):
        config.jobs = 2
    with pytest.raises(AttributeError, match="has no key 'job'"):
        config.with_changes(job=2)
    assert config.with_changes(jobs=2).jobs == 2
    assert config.jobs == 1
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize("value", [True, False, None, 1.5])
@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("corpus.label_column", lambda value: {"corpus": {"label_column": value}}),
        ("corpus.text_column", lambda value: {"corpus": {"text_column": value}}),
        ("evaluate.positive", lambda value: {"evaluate": {"positive": value}}),
        ("model.prior", lambda value: {"model": {"kind": "bernoulli", "prior": {value: 1}}}),
        ("feedback.share", lambda value: {"feedback": {"kind": "noisy", "share": {value: 0.1}}}),
        ("data.label", lambda value: {"data": {"kind": "table", "path": "t", "label": value}}),
        ("data.classes[0]", lambda value: {"data": {"kind": "bundled", "classes": [value, "a"]}}),
        (
            "data.columns[0]",
            lambda value: {"data": {"kind": "table", "path": "t", "columns": [value]}},
        ),
        ("data.text[0]", lambda value: {"data": {"kind": "table", "path": "t", "text": [value]}}),
        (
            "models.m.prior",
            lambda value: {
                "data": {"kind": "bundled"},
                "models": {"m": {"kind": "gaussian", "prior": {value: 1}}},
            },
        ),
        ("models", lambda value: {"data": {"kind": "bundled"}, "models": {value: {}}}),
    ],
)
def test_labels_and_names_that_yaml_changed_must_be_quoted(path, data, value):
    """YAML reads an unquoted `yes` as true, `null` as None and `1.50` as a number."""
    content = data(value)
    builder = build_experiment if "data" in content else build
    section, _, last_key = path.rpartition(".")
    if value is None and content.get(section, {}).get(last_key, "") is None:
        builder(content)  # null is the default of an optional name
        return
    with pytest.raises(ConfigError) as error:
        builder(content)
    assert f"{path}: " in str(error.value)
    assert "put it in quotes" in str(error.value)


def make_positive(text):
    data = {}
    set_key(data, f"model.positive={text}")
    return build(data).model.positive


@pytest.mark.parametrize("text", ["yes", "No", "on", "OFF", "true", "1" * 5000])
def test_the_positive_class_must_be_quoted(text):
    with pytest.raises(ConfigError, match="put it in quotes") as error:
        make_positive(text)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("letter", ["y", "n"])
def test_single_letters_are_labels(letter):
    assert make_positive(letter) == letter


def _all_sections(section):
    for subclass in section.__subclasses__():
        yield subclass
        yield from _all_sections(subclass)


def test_a_key_whose_default_is_null_can_be_null():
    import streamnb.cli.spark  # noqa: F401 (all sections)

    for section in _all_sections(Section):
        required = {
            name: declared.default
            for name, declared in section.declared_keys.items()
            if declared.default is not None
        }
        if not any(type(default) is object for default in required.values()):
            nulls = {name: None for name in section.declared_keys if name not in required}
            assert section.from_dict("", nulls).explicit_keys == frozenset()
    tokenizer = build({"tokenizer": {"casefold": None, "ngrams": None}}).tokenizer
    assert tokenizer.options() == {}


def test_labels_that_are_whole_numbers_need_no_quotes():
    config = build(
        {"model": {"kind": "multinomial", "prior": {0: 1, 1: 3}}, "evaluate": {"positive": 1}}
    )
    assert (config.model.prior, config.evaluate.positive) == ({"0": 1, "1": 3}, "1")


@pytest.mark.parametrize(
    "model",
    [
        MultinomialNB(alpha=np.float64(0.5), prior={"ham": 1, 3: 0.5, True: 2}),
        MixedNB(numeric={"b", "a"}),
        Tokenizer(ngrams=(1, 2), stop_words=["the", "a"]),
    ],
)
def test_parameters_survive_json(model):
    plain = json.loads(json.dumps(parameters_to_json(model)))
    copy = type(model)(**parameters_from_json(plain, type(model)))
    assert json.dumps(parameters_to_json(copy)) == json.dumps(plain)
    for name in model.parameter_table:
        value, read = getattr(model, name), getattr(copy, name)
        assert read == (tuple(sorted(value)) if isinstance(value, set | list) else value)


def test_paths_are_relative_to_the_file_and_know_a_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    data = {"data": {"path": "../a", "images": ["~/b", "/c", 3], "labels": None, "kind": "~/d"}}
    resolve_paths(data, "data", ("path", "images", "labels", "missing"), "/configs/own/it.yaml")
    assert data["data"] == {
        "path": "/configs/a",
        "images": ["/home/ann/b", "/c", 3],
        "labels": None,
        "kind": "~/d",
    }
    for wrong in ({}, {"data": ["~/b"]}):
        resolve_paths(wrong, "data", ("path",), "it.yaml")
    assert wrong == {"data": ["~/b"]}
    remote = {"spark": {"input": "hdfs://host/mail"}}
    resolve_paths(remote, "spark", ("input",), "it.yaml")
    assert remote == {"spark": {"input": "hdfs://host/mail"}}
    empty = {"corpus": {"path": ""}}
    resolve_paths(empty, "corpus", ("path",), "it.yaml")
    with pytest.raises(ConfigError, match=r"corpus.path: '' is not text that is not empty"):
        build(empty)


def test_every_input_of_a_configuration_is_relative_to_its_file(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("corpus: {path: ../a}\nspark: {input: ../b, output: c}\n")
    config = make_config((), str(path), (), {})
    assert config.corpus.path == str(tmp_path.parent / "a")
    assert config.spark.input == str(tmp_path.parent / "b")
    assert config.spark.output == "c"
    assert make_config((), str(path), ("spark.input=d",), {}).spark.input == "d"


@pytest.mark.parametrize("number", ["007", "010", "0x10", "0b1", "1_000", "12:30"])
@pytest.mark.parametrize("value", ["{}", "[{}]", "{{{}: 1}}", "{{a: {}}}"])
def test_numbers_that_yaml_reads_as_others_are_refused(tmp_path, value, number):
    text = value.format(number)
    with pytest.raises(ConfigError, match="in quotes"):
        set_key({}, f"model.prior={text}")
    (tmp_path / "c.yaml").write_text(f"prior: {text}\n")
    with pytest.raises(ConfigError, match=r"c.yaml:1: .*in quotes"):
        read_yaml(tmp_path / "c.yaml")
    set_key({}, f"model.prior={value.format(repr(number))}")


DIGITS = "1" * 5000  # more than Python converts


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "d.csv", "--label-column", DIGITS),
        ("replay", "d.csv", "--label-column", "0" * 10 + DIGITS),
        ("replay", "d.csv", "--text-column", DIGITS),
        ("replay", "d.csv", "--skip", DIGITS),
        ("replay", "d.csv", "--order", f"shuffled:{DIGITS}"),
        ("replay", "d.csv", "--set", f"corpus.limit={DIGITS}"),
        ("replay", "d.csv", "--set", f"model.prior={{{DIGITS}: 1}}"),
        ("serve", "--http", f"127.0.0.1:{DIGITS}"),
        ("serve", "--milter", f"127.0.0.1:{DIGITS}"),
    ],
    ids=lambda arguments: " ".join(arguments)[:50],
)
def test_a_number_of_too_many_digits_is_refused_in_one_line(tmp_path, monkeypatch, arguments):
    (tmp_path / "d.csv").write_text("label,text\n" + "a,x y\nb,z w\n" * 5)
    monkeypatch.chdir(tmp_path)
    status, _, error = streamnb_command(*arguments)
    assert status in (2, 3)
    assert (error.count("\n"), len(error) < 400, "internal error" in error) == (1, True, False)
