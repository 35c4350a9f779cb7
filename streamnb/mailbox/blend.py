"""How much a user's own mailbox and what the site knows are worth, learned from the user's labels.

The score of a class is gain_0 times what the user's mailbox says for it, plus gain_1 times what the
site says: two numbers, fitted by the log loss to the last messages that were learned, with the step
sizes of AdaGrad. To begin with both are 1, so that before a user has taught anything the site's
word is taken as it stands.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.naive_bayes.recalibration import Weights
from streamnb.scores import probabilities

__all__ = ["GAINS", "Evidence", "blended", "evidence_of", "fitted", "forget", "remember"]

GAINS = (1.0, 1.0)
_RATE = 0.1
_LEAST = 0.01  # of a gain
_KEPT = 200  # messages that the gains are fitted to
_SCHEMA = """
CREATE TABLE IF NOT EXISTS site(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,  -- which message
    version TEXT NOT NULL,        -- of the base that was asked
    label TEXT NOT NULL,          -- its class
    said TEXT NOT NULL            -- for each class what the user's mailbox and the site said, JSON
)
"""

Evidence = dict[str, tuple[float, float]]  # of each class: the user's mailbox's, the site's


def evidence_of(own: Mapping[str, float], site: Mapping[str, float]) -> Evidence:
    """What both say of each class, in nats around the mean of the classes they know.

    Of a class that only the user has, the site says what it says of ham: that it is no spam.

    Examples
    --------
    >>> evidence_of({}, {"ham": -1.0, "spam": 1.0})
    {'ham': (0.0, -1.0), 'spam': (0.0, 1.0)}
    >>> evidence_of({"work": 2.0, "ham": 0.0}, {"ham": -1.0, "spam": 1.0})["work"]
    (1.0, -1.0)
    """
    mine, theirs = _centred(own), _centred(site)
    labels = list(dict.fromkeys([*mine, *theirs]))
    other = theirs.get("ham", 0.0)
    return {label: (mine.get(label, 0.0), theirs.get(label, other)) for label in labels}


def _centred(scores: Mapping[str, float]) -> dict[str, float]:
    finite = {label: score for label, score in scores.items() if math.isfinite(score)}
    if len(finite) < 2:  # of one class alone nothing can be said
        return dict.fromkeys(finite, 0.0)
    mean = math.fsum(finite.values()) / len(finite)
    return {label: score - mean for label, score in finite.items()}


def blended(evidence: Evidence, gains: Sequence[float]) -> dict[str, float]:
    """The score of each class."""
    own, site = (max(gain, _LEAST) for gain in gains)
    return {label: own * mine + site * theirs for label, (mine, theirs) in evidence.items()}


def remember(
    connection: sqlite3.Connection, digest: bytes, version: str, label: str, evidence: Evidence
) -> None:
    """Note what was said of a message that is learned, within a transaction."""
    connection.execute(_SCHEMA)
    connection.execute(
        "REPLACE INTO site(digest, version, label, said) VALUES (?, ?, ?, ?)",
        (digest, version, label, json.dumps(evidence)),
    )
    connection.execute(
        "DELETE FROM site WHERE id <= (SELECT id FROM site ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (_KEPT,),
    )


def forget(connection: sqlite3.Connection, digest: bytes) -> None:
    """Forget what was said of a message, within a transaction."""
    connection.execute(_SCHEMA)
    connection.execute("DELETE FROM site WHERE digest = ?", (digest,))


def fitted(connection: sqlite3.Connection) -> list[float]:
    """The gains that follow from what is remembered; any exception where that is not sound."""
    weights = Weights(2, 1.0)
    weights.gains = list(GAINS)
    for label, said in connection.execute("SELECT label, said FROM site ORDER BY id"):
        evidence: dict[str, Any] = json.loads(said)
        if label not in evidence or len(evidence) < 2:
            continue
        shares = probabilities(list(blended(evidence, weights.gains).values()))
        gradients = [0.0, 0.0]
        for share, (one, pair) in zip(shares, evidence.items(), strict=True):
            for j in (0, 1):
                gradients[j] += (share - (one == label)) * float(pair[j])
        weights.step(gradients, [], _RATE, _LEAST)
    return weights.gains
