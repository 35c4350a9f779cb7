"""Model files: arrays and JSON, checked before they are believed."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamnb import _core
from streamnb.errors import ModelFileError, OutputError
from streamnb.naive_bayes.archive import array_of, write

if TYPE_CHECKING:
    from streamnb.counts import MemoryCounts
    from streamnb.naive_bayes.base import CountingNB
    from streamnb.naive_bayes.tabular.base import TabularNB

__all__ = ["from_outline", "load", "outline", "plain_label", "read", "read_label", "save"]

FORMAT = "streamnb model"
VERSION = 2
_KINDS = {"str": str, "int": int, "bool": bool, "float": float}


def plain_label(label: Any, what: str = "a label") -> list[Any]:
    """A label as JSON can hold it, with its type."""
    if isinstance(label, np.generic):
        label = label.item()
    for kind, made in _KINDS.items():
        if type(label) is made:
            return [kind, label]
    raise OutputError(
        f"{what} must be str, int, bool or float to be written to a model file, not {label!r:.80}"
    )


def read_label(pair: Any) -> Any:
    """The label that `plain_label` gave; ValueError where it is none."""
    kind, value = pair
    if type(value) is not _KINDS[kind]:
        raise ValueError(f"label {value!r:.80} is not {kind}")
    return value


_NAMES = {"numeric", "categorical", "parents"}  # parameters that are names of features


def _parameters(model: Any) -> dict[str, Any]:
    parameters = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in model._get_params().items()
    }
    for name in _NAMES & parameters.keys():
        if isinstance(parameters[name], Collection):
            parameters[name] = sorted(parameters[name], key=repr)
    if not isinstance(parameters.get("prior", ""), str):
        parameters["prior"] = [[plain_label(label), float(p)] for label, p in model.prior.items()]
    return parameters


def outline(model: Any) -> dict[str, Any]:
    """A model without its counts, as JSON can hold it."""
    members = getattr(model, "models", [model])
    outlined: dict[str, Any] = {
        "model": type(model).__name__,
        "members": [
            {"model": type(member).__name__, "parameters": _parameters(member)}
            for member in members
        ],
        "key": _core.DEFAULT_KEY.hex(),
    }
    if hasattr(model, "recalibration"):
        outlined["recalibration"] = model.recalibration.state()
        outlined["noise"] = model.noise.state()
    return outlined


def save(model: Any, path: str | Path, extra: Any = None) -> None:
    """Write a model; in which order its features came makes no difference to the bytes.

    Parameters
    ----------
    model
        A `CountingNB`, or a `ViewsNB` of several.
    path
        The file.
    extra
        Anything that JSON can hold, to be read back with the model: which tokenizer it wants.

    Raises
    ------
    OutputError
        Where the file cannot be written, or a label is of a type that cannot be.
    """
    if hasattr(model, "statistics"):
        _save_tabular(model, Path(path), extra)
        return
    members = getattr(model, "models", [model])
    header = {"format": FORMAT, "version": VERSION, **outline(model), "extra": extra}
    for described, member in zip(header["members"], members, strict=True):
        described.update(_counts_header(member.counts))
    text = json.dumps(header, sort_keys=True).encode()
    arrays = {"header": np.frombuffer(text, dtype=np.uint8)}
    for number, one in enumerate(members):
        for name, array in _arrays(one).items():
            arrays[f"{number}.{name}"] = array
    write(Path(path), arrays)


def _save_tabular(model: TabularNB, path: Path, extra: Any) -> None:
    described, arrays = model.statistics.state()
    lows = []
    for k, one in enumerate(model._weights):
        low, arrays[f"weight{k}"] = one.arrays()
        lows.append(low)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "key": _core.DEFAULT_KEY.hex(),
        "model": type(model).__name__,
        "parameters": _parameters(model),
        "labels": [plain_label(label) for label in model.labels],
        "lows": lows,
        "statistics": described,
        "arrays": {name: [array.dtype.str, array.ndim] for name, array in arrays.items()},
        "extra": extra,
    }
    try:
        text = json.dumps(header, sort_keys=True).encode()
    except TypeError as error:
        raise OutputError(f"{path}: the model cannot be written: {error}") from None
    write(path, {"header": np.frombuffer(text, dtype=np.uint8), **arrays})


def _restore_tabular(archive: zipfile.ZipFile, header: Any, made: Any) -> Any:
    model = made(**_given(header["parameters"]))
    labels = [read_label(pair) for pair in header["labels"]]
    if len(set(labels)) != len(labels):
        raise ValueError("a label occurs twice")
    arrays = {}
    for name, (dtype, ndim) in header["arrays"].items():
        if dtype not in ("<i8", "<u8", "<f8"):
            raise ValueError(f"{name} is not what it should be")
        arrays[name] = np.array(array_of(archive, name, dtype, ndim))
    model._declare(labels)
    for k, (one, low) in enumerate(zip(model._weights, header["lows"], strict=True)):
        one.load(0, low, arrays[f"weight{k}"])
        if one.weight < 0:
            raise ValueError("a class has a weight below zero")
    model.statistics.restore(header["statistics"], arrays)
    return model


def _counts_header(counts: MemoryCounts) -> dict[str, Any]:
    return {
        "labels": [plain_label(label) for label in counts.labels],
        "weights": counts.weights,
        "totals": counts.totals,
        "scale": counts.scale,
        "exponent": counts.exponent,
    }


def _arrays(model: CountingNB) -> dict[str, Any]:
    fingerprints, cells, names, ends = model.counts.table.arrays()
    order = np.argsort(fingerprints)
    arrays = {"fingerprints": fingerprints[order], "counts": cells[order]}
    if names is not None and ends is not None:
        starts = np.concatenate((np.zeros(1, np.uint64), ends[:-1])) if len(ends) else ends
        ordered = [names[starts[i] : ends[i]] for i in order.tolist()]
        arrays["names"] = np.frombuffer(b"".join(ordered), dtype=np.uint8)
        arrays["name_ends"] = np.cumsum([len(name) for name in ordered], dtype=np.uint64)
    return arrays


def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path
        The file.
    kind
        The class it must be of; None for any.

    Raises
    ------
    ModelFileError
        Where the file is missing, damaged, not ours, of another version or of another model.
    """
    return read(path, kind)[0]


def read(path: str | Path, kind: type[Any] | None = None) -> tuple[Any, Any]:
    """Read a model and the `extra` that was saved with it; as `load`."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError("not a regular file")
        with zipfile.ZipFile(path) as archive:
            header = json.loads(array_of(archive, "header", "u1").tobytes())
            return _restore(archive, header, kind), header["extra"]
    except OSError as error:
        raise ModelFileError(
            f"{path}: the model cannot be read: {error.strerror or error}"
        ) from None
    except _ForeignError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # a damaged archive can fail in any way
        why = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise ModelFileError(
            f"{path}: not a streamnb model, or a damaged one ({why}); "
            "restore it from a backup or train anew"
        ) from None


class _ForeignError(Exception):
    """A sound file of another kind."""


def _restore(archive: zipfile.ZipFile, header: Any, kind: type[Any] | None) -> Any:
    if header["format"] != FORMAT:
        raise ValueError(f"format is {header['format']!r:.40}")
    if header["version"] != VERSION:
        raise _ForeignError(
            f"a model file of version {header['version']!r:.20}, and this streamnb reads "
            f"version {VERSION}: use the streamnb that wrote it, or train anew"
        )
    if header["key"] != _core.DEFAULT_KEY.hex():
        raise _ForeignError("the model's fingerprints were made with another key")
    tabular = header["model"] in _TABULAR
    if tabular:
        from streamnb import naive_bayes

        model = _restore_tabular(archive, header, getattr(naive_bayes, header["model"]))
    else:
        model = from_outline(header)
    if kind is not None and not isinstance(model, kind):
        raise _ForeignError(f"the file holds a {type(model).__name__}, not a {kind.__name__}")
    if tabular:
        return model
    members = getattr(model, "models", [model])
    for number, (of, member) in enumerate(zip(header["members"], members, strict=True)):
        _fill(member, archive, of, f"{number}.")
    labels = [member.counts.labels for member in members]
    if any(of != labels[0] for of in labels):
        raise ValueError("the views do not belong together")
    return model


def from_outline(outlined: Any) -> Any:
    """The model that `outline` described, without counts; any exception where it is not sound."""
    from streamnb import naive_bayes
    from streamnb.naive_bayes.label_noise import LabelNoise
    from streamnb.naive_bayes.recalibration import Recalibration

    models = {
        name: getattr(naive_bayes, name) for name in naive_bayes.__all__ if name not in _NO_MODELS
    }
    members = [_bare_member(of, models[of["model"]]) for of in outlined["members"]]
    if outlined["model"] != "ViewsNB":
        (member,) = members
        if type(member).__name__ != outlined["model"]:
            raise ValueError("model and member are of different kinds")
        return member
    recalibration = Recalibration.from_state(outlined["recalibration"])
    noise = LabelNoise.from_state(outlined["noise"])
    if len(recalibration.gains) != len(members):
        raise ValueError("the views do not belong together")
    model = naive_bayes.ViewsNB(members, recalibration.rate, noise.fixed)
    model.recalibration, model.noise = recalibration, noise
    model.be_cautious()
    return model


_TABULAR = {
    "AODE",
    "CategoricalNB",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "LazyBayesianRules",
    "MixedNB",
}
_NO_MODELS = {"ViewsNB", "WindowNB", "load", *_TABULAR}


def _bare_member(described: Any, made: Any) -> Any:
    return made(**_given(described["parameters"]))


def _given(parameters: Any) -> dict[str, Any]:
    given = dict(parameters)
    if not isinstance(given.get("prior", ""), str):
        given["prior"] = {read_label(label): float(p) for label, p in given["prior"]}
    return given


def _fill(model: CountingNB, archive: zipfile.ZipFile, header: Any, prefix: str) -> None:
    labels = [read_label(pair) for pair in header["labels"]]
    weights = np.array(header["weights"], dtype=np.float64)
    totals = np.array(header["totals"], dtype=np.float64)
    fingerprints = array_of(archive, f"{prefix}fingerprints", "<u8")
    cells = array_of(archive, f"{prefix}counts", "<f8", 2)
    if not weights.shape == totals.shape == (len(labels),) or cells.shape != (
        len(fingerprints),
        len(labels),
    ):
        raise ValueError("labels, weights and counts do not belong together")
    if len(set(labels)) != len(labels):
        raise ValueError("a label occurs twice")
    for numbers in (weights, totals, cells):
        if not ((numbers >= 0) & (numbers <= 1e300)).all():
            raise ValueError("a count is negative or not finite")
    if (cells.any(axis=0) & (weights <= 0)).any():
        raise ValueError("a class has counts but no messages")
    if not np.allclose(cells.sum(axis=0), totals, rtol=1e-6, atol=1e-6):
        raise ValueError("the totals are not the sums of the counts")
    names = ends = None
    if f"{prefix}names.npy" in archive.namelist():
        names = array_of(archive, f"{prefix}names", "u1").tobytes()
        ends = np.ascontiguousarray(array_of(archive, f"{prefix}name_ends", "<u8"), dtype=np.uint64)
    scale, exponent = float(header["scale"]), header["exponent"]
    if not 1 <= scale <= 2**33 or type(exponent) is not int or exponent < 0:
        raise ValueError("the scale of the counts is not sound")
    counts = model.counts
    counts.scale, counts.exponent = scale, exponent
    counts.declare(labels)
    counts.weights[:] = weights.tolist()
    counts.table.load(
        np.ascontiguousarray(fingerprints, dtype=np.uint64),
        np.ascontiguousarray(cells, dtype=np.float64),
        totals.tolist(),
        names,
        ends,
    )
