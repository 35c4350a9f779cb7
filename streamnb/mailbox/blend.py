"""How much a user's own mailbox and what the site knows are worth, learned from the user's labels.

The score of a class is gain_0 times what the user's mailbox says for it, plus gain_1 times what the
site says: two numbers, fitted by the log loss to the last messages that were learned, with the step
sizes of AdaGrad. To begin with both are 1, so that before a user has taught anything the site's
word is taken as it stands.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from streamnb.classifier import Classifier, Verdict
from streamnb.classifier.verdict import Costs, Reason
from streamnb.counts.protocol import Label
from streamnb.naive_bayes.calibration import Recalibration
from streamnb.scores import log_odds, probabilities

GAINS = (1.0, 1.0)
_RATE = 0.1
_LEAST = 0.01  # of a gain
_KEPT = 200  # messages that the gains are fitted to
_ENOUGH = 20  # messages from which on a mailbox's own reasons are told, not the site's
_SCHEMA = """
CREATE TABLE IF NOT EXISTS site(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,  -- which message
    version TEXT NOT NULL,        -- of the base that was asked
    said TEXT NOT NULL            -- for each class what the user's mailbox and the site said, JSON
)
"""

Evidence = dict[str, tuple[float, float]]  # of each class: the user's mailbox's, the site's


class SiteScores(Protocol):
    """A read-only model of a site, asked beside a user's own (`site_model.SiteModel`)."""

    @property
    def version(self) -> str:
        """The state of the model."""

    def scores(self, message: bytes) -> dict[str, float]:
        """Return the score of each class, {} before anything was learned."""

    def messages(self) -> dict[str, float]:
        """Return the number of messages learned of each class."""

    def is_ready(self, label: str) -> bool:
        """Return whether a class was predicted correctly often enough to be sure."""

    def reasons(self, message: bytes, label: str, most: int) -> list[Reason]:
        """Return the features that speak most for or against a class."""


def scores_of(classifier: Classifier, counted: Any) -> dict[str, float]:
    """What a classifier says of a message's features, as its tokenizer counted them."""
    found = classifier.model.joint_log_likelihood(counted)
    return {str(label): score for label, score in found.items()}


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
    other = theirs.get("ham", 0.0)
    return {label: (mine.get(label, 0.0), theirs.get(label, other)) for label in mine | theirs}


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


def verdict_of_both(
    classifier: Classifier,
    gains: Sequence[float],
    base: SiteScores,
    message: bytes,
    site: Mapping[str, float],
    reasons: int,
    costs: Sequence[float] | None,
) -> Verdict:
    """Decide by what a user's classifier says and what the site does.

    Parameters
    ----------
    classifier, gains
        The user's, and what either is worth.
    base, site
        What the site knows, and its scores of the message.
    message, reasons, costs
        As for `Classifier.classify`.
    """
    counted = classifier.count(message)
    mine = {str(label): label for label in classifier.labels}
    evidence = evidence_of(scores_of(classifier, counted), site)
    scores: dict[Label, float] = {
        mine.get(label, label): score for label, score in blended(evidence, gains).items()
    }
    own = classifier.messages()
    messages = dict(own)
    for name, number in base.messages().items():
        known = mine.get(name, name)
        messages[known] = messages.get(known, 0.0) + number
    asked = classifier.costs if costs is None else Costs(*costs)
    label, shares, unsure = classifier.decide(scores, asked, messages)
    why: list[Reason] = []
    if reasons and str(label) in mine and sum(own.values()) >= _ENOUGH:
        why = classifier.reasons(counted, label, reasons)
    elif reasons:
        why = base.reasons(message, str(label), reasons)
    ready = str(label) in mine and classifier.model.is_ready(label)
    ready = ready or base.is_ready(str(label))
    return Verdict(label, shares[label], log_odds(scores, label), unsure, shares, why, ready)


def remember(connection: Any, digest: bytes, version: str, evidence: Evidence) -> None:
    """Note what was said of a message that is learned, within a transaction."""
    forget(connection, digest)
    connection.execute(
        "INSERT INTO site(digest, version, said) VALUES (?, ?, ?)",
        (digest, version, json.dumps(evidence)),
    )
    connection.execute(
        "DELETE FROM site WHERE id <= (SELECT id FROM site ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (_KEPT,),
    )


def forget(connection: Any, digest: bytes) -> None:
    """Forget what was said of a message, within a transaction."""
    connection.execute(_SCHEMA)
    connection.execute("DELETE FROM site WHERE digest = ?", (digest,))


def fitted(connection: Any, labels: Sequence[str]) -> tuple[float, float]:
    """The gains that follow from what is remembered of messages that are learned.

    What is not sound is forgotten: it is no more than a fit.
    """
    connection.execute(_SCHEMA)
    rows = connection.execute(
        "SELECT ledger.label, said FROM site JOIN ledger ON ledger.digest = site.digest "
        "AND ledger.removed_at IS NULL ORDER BY site.id"
    ).fetchall()
    try:
        return _fitted([(labels[k], json.loads(said)) for k, said in rows])
    except (ValueError, TypeError, LookupError, AttributeError):
        connection.execute("DELETE FROM site")
        return GAINS


def _fitted(lessons: Sequence[tuple[str, dict[str, Any]]]) -> tuple[float, float]:
    recalibration = Recalibration(2, _RATE)
    gains = recalibration.shared.slopes = list(GAINS)
    for label, evidence in lessons:
        if label not in evidence or len(evidence) < 2:
            continue
        known = list(range(len(evidence)))
        said = [[float(number) for number in of] for of in zip(*evidence.values(), strict=True)]
        shares = probabilities(list(blended(evidence, gains).values()))
        recalibration.learn(said, shares, list(evidence).index(label), known)
    own, site = gains
    return own, site
