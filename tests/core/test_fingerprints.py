import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import TokenCounts, _core

names = st.recursive(
    st.text(max_size=12) | st.binary(max_size=12) | st.integers(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def test_fingerprint_is_the_siphash_of_the_standard_library():
    """With its hash seed at 0, CPython hashes bytes by SipHash-1-3 with a key of zeros."""
    texts = ["x" * n for n in range(1, 40)] + ["naïve", "東京"]
    program = f"print([hash(t.encode()) % 2**64 for t in {texts!r}])"
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8"}
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip(f"this Python hashes by {sys.hash_info.algorithm}")
    out = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, check=True
    )
    assert [_core.fingerprint(text) for text in texts] == json.loads(out.stdout)


def test_fingerprints_never_change():
    """Model files hold fingerprints: these values are the format."""
    assert _core.fingerprint("") == 0xD1FBA762150C532C
    assert _core.fingerprint("free") == 0x13E2DE3C33D99539
    assert _core.fingerprint(b"free") == 0xAC3F2B4F790A3EAF
    assert _core.fingerprint(42) == 0xA759EA27D4727622
    assert _core.fingerprint(("new", "york")) == 0x7B4BA5B7ED2BE9BA


def test_a_key_changes_every_fingerprint():
    key = bytes(range(16))
    for name in ("free", b"free", 42, ("new", 1)):
        assert _core.fingerprint(name) != _core.fingerprint(name, key)
    with pytest.raises(ValueError, match="16 bytes"):
        _core.fingerprint("free", b"short")


@given(names)
def test_names_are_read_back(name):
    assert _core.decode_name(_core.encode_name(name)) == name


@given(st.lists(names, unique_by=repr, max_size=20))
def test_different_names_differ(several):
    assert len({_core.encode_name(name) for name in several}) == len(several)


@given(st.binary(max_size=40))
def test_any_bytes_are_shown_as_something(name):
    assert repr(_core.decode_name(name))


def test_a_number_that_python_would_not_write_out_is_shown_all_the_same():
    assert f"{_core.decode_name(bytes([0xFA]) + bytes([0x7F]) * 3000)}"


def test_a_str_and_its_bytes_are_two_features():
    assert len(TokenCounts.from_dict({"a": 1, b"a": 1, ("a",): 1})) == 3


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_columns_are_integers_and_never_collide(columns):
    prints = _core.fingerprint_columns(np.array(columns, dtype=np.int64))
    assert prints.tolist() == [_core.fingerprint(column) for column in columns]
    assert len(set(prints.tolist())) == len(set(columns))


@pytest.mark.parametrize("name", [1.5, None, ["a"], {"a"}])
def test_other_names_are_refused(name):
    with pytest.raises(TypeError, match="feature name"):
        _core.fingerprint(name)
    if name.__hash__ is not None:
        with pytest.raises(TypeError, match="feature name"):
            TokenCounts.from_dict({name: 1})


def test_a_tuple_nested_without_end_is_refused():
    name = ()
    for _ in range(100_000):
        name = (name,)
    with pytest.raises(ValueError, match="nested"):
        _core.fingerprint(name)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, -1e-9, "2", b"2", None, [1], 10**400, 1e101, object()]
)
def test_bad_counts_are_refused_by_name(value):
    with pytest.raises(ValueError, match="'offer'"):
        TokenCounts.from_dict({"free": 1, "offer": value})


def test_numbers_of_every_kind_are_counts():
    x = {"a": np.int8(2), "b": np.float32(0.5), "c": True, "d": 0, "e": -0.0}
    assert TokenCounts.from_dict(x).to_dict() == {"a": 2, "b": 0.5, "c": 1}


def test_token_counts_check_what_they_are_made_of():
    with pytest.raises(ValueError, match="occurs twice"):
        TokenCounts([1, 1], [1, 1])
    with pytest.raises(ValueError, match="shape"):
        TokenCounts([1, 2], [1])
    with pytest.raises(ValueError, match="counts must be"):
        TokenCounts([1], [0])
    with pytest.raises(ValueError, match="ends"):
        TokenCounts([1, 2], [1, 1], b"ab", [2, 1])
    assert TokenCounts([1, 2], [1, 3], b"ab", [1, 2]).to_dict() == {"a": 1, "b": 3}


def test_unnamed_features_are_shown_as_fingerprints():
    counts = TokenCounts.from_dict({"free": 2}, keep_names=False)
    assert counts.to_dict() == {f"#{_core.fingerprint('free'):016x}": 2}
