"""Mixing the scores of a user's own mailbox with those of the site's model.

The score of a class is gain_0 times the score of the user's mailbox, plus gain_1 times that of the
site's model. The two gains are fitted to the latest learned messages by log loss with the step
sizes of AdaGrad. Both start at 1, so a new user gets the site's scores unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.classifier import Classifier, Verdict
from streamnb.classifier.verdict import Costs, Reason
from streamnb.counts.protocol import Label
from streamnb.mailbox.transactions import Transactions
from streamnb.naive_bayes.recalibration import Recalibration
from streamnb.scores import log_odds, probabilities

GAINS = (1.0, 1.0)
_LEARNING_RATE = 0.1
_MIN_GAIN = 0.01
_MAX_STORED = 200  # messages that the gains are fitted to
_MIN_OWN_MESSAGES = 20  # with fewer, the reasons of a verdict are the site's
_SCHEMA = """
CREATE TABLE IF NOT EXISTS site(
    id {row_id},
    digest {blob} NOT NULL UNIQUE,  -- which message
    version TEXT NOT NULL,        -- of the base that was asked
    said TEXT NOT NULL            -- for each class what the user's mailbox and the site said, JSON
)
"""

Evidence = dict[str, tuple[float, float]]  # for each class the scores of the mailbox, the site


def scores_of(classifier: Classifier, counted: Any) -> dict[str, float]:
    """Return the score of each class for a message's features."""
    scores = classifier.model.joint_log_likelihood(counted)
    return {str(label): score for label, score in scores.items()}


def evidence_of(own: Mapping[str, float], site: Mapping[str, float]) -> Evidence:
    """Return both scores of each class, in nats relative to the mean over the model's classes.

    For a class that only the user has, the site's score of ham is used.

    Examples
    --------
    >>> evidence_of({}, {"ham": -1.0, "spam": 1.0})
    {'ham': (0.0, -1.0), 'spam': (0.0, 1.0)}
    >>> evidence_of({"work": 2.0, "ham": 0.0}, {"ham": -1.0, "spam": 1.0})["work"]
    (1.0, -1.0)
    """
    own_scores, site_scores = _centred(own), _centred(site)
    other = site_scores.get("ham", 0.0)
    return {
        label: (own_scores.get(label, 0.0), site_scores.get(label, other))
        for label in own_scores | site_scores
    }


def _centred(scores: Mapping[str, float]) -> dict[str, float]:
    finite = {label: score for label, score in scores.items() if math.isfinite(score)}
    if len(finite) < 2:  # of one class alone nothing can be said
        return dict.fromkeys(finite, 0.0)
    mean = math.fsum(finite.values()) / len(finite)
    return {label: score - mean for label, score in finite.items()}


def blend_scores(evidence: Evidence, gains: Sequence[float]) -> dict[str, float]:
    """Return the mixed score of each class."""
    own, site = (max(gain, _MIN_GAIN) for gain in gains)
    return {
        label: own * own_score + site * site_score
        for label, (own_score, site_score) in evidence.items()
    }


def verdict_of_both(
    classifier: Classifier,
    gains: Sequence[float],
    base: Any,
    message: bytes,
    site: Mapping[str, float],
    reasons: int,
    costs: Sequence[float] | None,
) -> Verdict:
    """Return the verdict from the scores of a user's classifier and of the site's model.

    Parameters
    ----------
    classifier, gains
        The user's, and what either is worth.
    base, site
        The site's model (`site_model.SiteModel`), and its scores of the message.
    message, reasons, costs
        As for `Classifier.classify`.
    """
    counted = classifier.count(message)
    own_labels = {str(label): label for label in classifier.labels}
    evidence = evidence_of(scores_of(classifier, counted), site)
    mixed = blend_scores(evidence, gains)
    scores: dict[Label, float] = {own_labels.get(name, name): mixed[name] for name in mixed}
    own = classifier.messages()
    messages = dict(own)
    for name, number in base.messages().items():
        label_of_name = own_labels.get(name, name)
        messages[label_of_name] = messages.get(label_of_name, 0.0) + number
    used_costs = classifier.costs if costs is None else Costs(*costs)
    label, shares, unsure = classifier.decide(scores, used_costs, messages)
    explanation: list[Reason] = []
    if reasons and str(label) in own_labels and sum(own.values()) >= _MIN_OWN_MESSAGES:
        explanation = classifier.reasons(counted, label, reasons)
    elif reasons:
        explanation = base.reasons(message, str(label), reasons)
    ready = str(label) in own_labels and classifier.model.is_ready(label)
    ready = ready or base.is_ready(str(label))
    return Verdict(
        label, shares[label], log_odds(scores, label), unsure, shares, explanation, ready
    )


def store_scores(database: Transactions, digest: bytes, version: str, evidence: Evidence) -> None:
    """Store both scores of a learned message, within a transaction."""
    delete_scores(database, digest)
    database.connection.execute(
        "INSERT INTO site(digest, version, said) VALUES (?, ?, ?)",
        (digest, version, json.dumps(evidence)),
    )
    database.connection.execute(
        "DELETE FROM site WHERE id <= (SELECT id FROM site ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (_MAX_STORED,),
    )


def delete_scores(database: Transactions, digest: bytes) -> None:
    """Delete the stored scores of a message, within a transaction."""
    database.create(_SCHEMA)
    database.connection.execute("DELETE FROM site WHERE digest = ?", (digest,))


def fit_gains(database: Transactions, labels: Sequence[str]) -> tuple[float, float]:
    """Return the gains fitted to the stored scores of learned messages.

    Damaged scores are deleted, and the gains are reset to 1.
    """
    database.create(_SCHEMA)
    rows = database.connection.execute(
        "SELECT ledger.label, said FROM site JOIN ledger ON ledger.digest = site.digest "
        "AND ledger.removed_at IS NULL ORDER BY site.id"
    ).fetchall()
    try:
        return _fit_gains([(labels[k], json.loads(evidence)) for k, evidence in rows])
    except (ValueError, TypeError, LookupError, AttributeError):
        database.connection.execute("DELETE FROM site")
        return GAINS


def _fit_gains(lessons: Sequence[tuple[str, dict[str, Any]]]) -> tuple[float, float]:
    recalibration = Recalibration(2, _LEARNING_RATE)
    gains = recalibration.shared.slopes = list(GAINS)
    for label, evidence in lessons:
        if label not in evidence or len(evidence) < 2:
            continue
        class_indices = list(range(len(evidence)))
        class_scores = [
            [float(score) for score in scores] for scores in zip(*evidence.values(), strict=True)
        ]
        shares = probabilities(list(blend_scores(evidence, gains).values()))
        recalibration.learn(class_scores, shares, list(evidence).index(label), class_indices)
    own, site = gains
    return own, site
