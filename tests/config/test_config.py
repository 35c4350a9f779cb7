"""Sections of a configuration: what they read, refuse and write."""

import json
import pickle

import numpy as np
import pytest

from streamnb import MixedNB, MultinomialNB, Tokenizer
from streamnb.config import build
from streamnb.config.sections import Section, key, list_type, mapping_type, section
from streamnb.config.yaml_files import resolve_paths
from streamnb.errors import ConfigError
from streamnb.parameters import Integer, Text, parameters_from_json, parameters_to_json


class Point(Section):
    kind: str = key(Text(), default="point")
    at: tuple[int, ...] = key(list_type(Integer(0), 2))
    names: dict[str, int] = key(mapping_type(Integer()), default={})


class Circle(Section):
    kind: str = key(Text(), default="circle")
    middle: Point = key(section(Point))
    radius: int = key(Integer(), default=1)


shape = section(Point, Circle, default="circle")


def test_what_is_read_is_what_plain_data_says():
    made = shape("shape", {"middle": {"at": [1, 2], "names": {"a": 3}}})
    assert isinstance(made, Circle)
    assert (made.middle.at, made.middle.names, made.radius) == ((1, 2), {"a": 3}, 1)
    assert made.explicit_keys == {"middle"}
    assert made.to_dict() == {
        "kind": "circle",
        "middle": {"kind": "point", "at": [1, 2], "names": {"a": 3}},
        "radius": 1,
    }
    assert shape("", made.to_dict()) == made == shape("", made)
    assert made != made.with_changes(radius=2)
    assert Point(at=(1, 2)) == Point.from_dict("", {"at": [1, 2]})


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        (3, "s: expected keys and values"),
        (None, "s.middle: missing"),
        ({"middle": None}, "s.middle.at: missing"),
        ({"middle": {"at": [1]}}, r"s.middle.at: \[1\] is not a list of 2 values or more"),
        ({"middle": {"at": [1, "2"]}}, r"s.middle.at\[1\]: '2' is not a whole number"),
        ({"middle": {"at": [1, 2], "names": [1]}}, r"s.middle.names: \[1\] is no mapping of names"),
        ({"middle": {"at": [1, 2], "names": {1: 2}}}, "s.middle.names: 1 is no name"),
        ({"middle": {"at": [1, 2], "names": {"": 2}}}, "s.middle.names: '' is no name"),
        ({"kind": "square"}, "s.kind: 'square' is not one of point, circle"),
        ({"kind": []}, r"s.kind: \[\] is not one of"),
        ({None: 1}, "s.null: unknown key"),
        ({"raduis": 1}, "s.raduis: unknown key; did you mean 'radius'"),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(plain, why):
    with pytest.raises(ValueError, match=why):
        shape("s", plain)


def test_a_configuration_does_not_change():
    config = build({"model": {"kind": "multinomial", "prior": {"a": 1, "b": 3}}})
    with pytest.raises(AttributeError, match="does not change"):
        config.jobs = 2
    with pytest.raises(AttributeError, match="has no key 'job'"):
        config.with_changes(job=2)
    assert config.with_changes(jobs=2).jobs == 2
    assert config.jobs == 1
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    "of",
    [
        MultinomialNB(alpha=np.float64(0.5), prior={"ham": 1, 3: 0.5, True: 2}),
        MixedNB(numeric={"b", "a"}),
        Tokenizer(ngrams=(1, 2), stop_words=["the", "a"]),
    ],
)
def test_parameters_survive_json(of):
    plain = json.loads(json.dumps(parameters_to_json(of)))
    made = type(of)(**parameters_from_json(plain, type(of)))
    assert json.dumps(parameters_to_json(made)) == json.dumps(plain)
    for name in of.parameter_table:
        given, read = getattr(of, name), getattr(made, name)
        assert read == (tuple(sorted(given)) if isinstance(given, set | list) else given)


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
    nowhere = {"corpus": {"path": ""}}
    resolve_paths(nowhere, "corpus", ("path",), "it.yaml")
    with pytest.raises(ConfigError, match=r"corpus.path: '' is not text that is not empty"):
        build(nowhere)
