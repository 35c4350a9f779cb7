"""The mix of the scores of a user's mailbox and of the site's model.

The score of a class is gain_0 times the score of the user's mailbox, plus gain_1 times that of the
site's model. The two gains are fitted to the latest learned messages by log loss with the step
sizes of AdaGrad. Both start at 1, so a new user gets the site's scores unchanged.

The site often has fewer classes than the user: for example, spam and ham, while the user divides
ham into work and lists. The site's most probable class other than spam is then the *host* of the
classes that only the user has. The host and these classes get the site's score of the host, and the
scores of the user's mailbox decide between them. The prior includes the site's messages of the
host, so a class with one message does not make all ham unsure. If only the site has
a class, the user's mailbox scores it like its own most probable class that the site lacks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from streamnb.classifier import Classifier, Verdict
from streamnb.classifier.verdict import Reason, as_costs
from streamnb.counts.protocol import Label
from streamnb.database import Database
from streamnb.naive_bayes.recalibration import LabelStep, Recalibration
from streamnb.scores import best_label, log_odds, probabilities

GAINS = (1.0, 1.0)
_LEARNING_RATE = 0.1
_MIN_GAIN = 0.01
_MAX_STORED = 200  # number of messages to which the gains are fitted
# Largest number of the site's messages in the prior of the host, if the mailbox has the host, too.
# Simulation: a site with 1,000 messages of another corpus; a user with 30 messages each of spam,
# ham and a mailing list. Of 120 ham messages, 83 get a sure verdict, and of 120 messages of the
# list, 27. With 50, the numbers are 80 and 29; with 200, 86 and 25.
_MAX_HOST_MESSAGES = 100.0
_MIN_OWN_MESSAGES = 20  # with fewer messages, the reasons of a verdict come from the site's model
_SCHEMA = """
CREATE TABLE IF NOT EXISTS site(
    id {row_id},
    digest {blob} NOT NULL UNIQUE,  -- identity of the message
    version TEXT NOT NULL,        -- version of the site's model
    scores TEXT NOT NULL          -- scores of each class by mailbox and site, JSON
)
"""

# for each class: score of the mailbox, score of the site
Evidence = dict[str, tuple[float, float]]


class Opinion(NamedTuple):
    """The scores of a message by a model, and the model's numbers of messages and ready classes.

    The opinion of the site's model also has the version of the model.
    """

    scores: Mapping[str, float]
    messages: Mapping[str, float]
    ready: Collection[str] = ()
    version: str = ""


def opinion_of(classifier: Classifier, counted: Any) -> Opinion:
    """Return the opinion on a message's features, without classes that have no messages."""
    with classifier.model.lock:
        messages = {str(label): n for label, n in classifier.messages().items() if n > 0}
        scores = classifier.model.joint_log_likelihood(counted) if messages else {}
        ready = [str(label) for label in classifier.labels if classifier.model.is_ready(label)]
    scores_by_name = {str(y): score for y, score in scores.items() if str(y) in messages}
    return Opinion(scores_by_name, messages, ready)


def evidence_of(own: Opinion, site: Opinion, positive: str = "spam") -> Evidence:
    """Return each class's scores by user and site in nats, minus the mean over the model's classes.

    Parameters
    ----------
    own, site
        The opinions of the user's mailbox and of the site.
    positive
        The class that is never a host, such as spam.

    Examples
    --------
    >>> site = Opinion({"ham": -1.0, "spam": 1.0}, {"ham": 90.0, "spam": 50.0})
    >>> evidence_of(Opinion({}, {}), site)
    {'ham': (0.0, -1.0), 'spam': (0.0, 1.0)}
    >>> own = Opinion({"work": 2.0, "ham": 0.0}, {"work": 10.0, "ham": 10.0})
    >>> own_evidence, site_evidence = evidence_of(own, site)["work"]
    >>> own_evidence, round(site_evidence, 9)  # as the site's ham, of which the user has 10 of 100
    (1.0, -3.302585093)
    """
    own_scores, site_scores = _center_scores(own.scores), _center_scores(site.scores)
    own_only = [label for label in own_scores if label not in site_scores]
    best_own = max((own_scores[label] for label in own_only), default=0.0)
    evidence = {
        label: (own_scores.get(label, 0.0 if label == positive else best_own), score)
        for label, score in site_scores.items()
    }
    hosts = {label: score for label, score in site_scores.items() if label != positive}
    host = best_label(hosts)
    for label in own_only:
        site_score = 0.0 if host is None else hosts[host] + _log_share(own, site, host, own_only)
        evidence[label] = own_scores[label], site_score
    return evidence


def _log_share(own: Opinion, site: Opinion, host: str, own_only: Sequence[str]) -> float:
    """Return the logarithm of the share of the host's messages in the user's mailbox.

    If the mailbox does not have the host, its own classes are used.
    """
    site_messages = site.messages.get(host, 0.0)
    if host in own.messages:
        own_messages = own.messages[host]
        site_messages = min(site_messages, _MAX_HOST_MESSAGES)
    else:
        own_messages = math.fsum(own.messages[label] for label in own_only)
    return math.log(own_messages / (own_messages + site_messages))


def _center_scores(scores: Mapping[str, float]) -> dict[str, float]:
    if len(scores) < 2:  # a single class has no other to compare with
        return dict.fromkeys(scores, 0.0)
    mean = math.fsum(scores.values()) / len(scores)
    return {label: score - mean for label, score in scores.items()}


def blend_scores(evidence: Evidence, gains: Sequence[float]) -> dict[str, float]:
    """Return the mixed score of each class."""
    own, site = (max(gain, _MIN_GAIN) for gain in gains)
    return {
        label: own * own_score + site * site_score
        for label, (own_score, site_score) in evidence.items()
    }


def messages_of_both(classifier: Classifier, site: Opinion | None) -> dict[Label, float]:
    """Return the number of messages of each class of the user's mailbox and of the site."""
    messages = classifier.messages()
    labels = {str(label): label for label in classifier.labels}
    for name, number in {} if site is None else site.messages.items():
        label = labels.get(name, name)
        messages[label] = messages.get(label, 0.0) + number
    return messages


def verdict_of_both(
    classifier: Classifier,
    gains: Sequence[float],
    explain: Callable[[bytes, str, int], list[Reason]],
    message: bytes,
    site: Opinion,
    reasons: int,
    costs: Sequence[float] | None,
) -> Verdict:
    """Return the verdict on a message from the scores of user and site.

    Parameters
    ----------
    classifier, gains
        The user's classifier, and the weights of both.
    explain, site
        `SiteModel.reasons` of the site's model, and its opinion on the message.
    message, reasons, costs
        As for `Classifier.classify`.
    """
    counted = classifier.count(message)
    own_labels = {str(label): label for label in classifier.labels}
    opinion = opinion_of(classifier, counted)
    evidence = evidence_of(opinion, site, str(classifier.positive))
    mixed = blend_scores(evidence, gains)
    scores: dict[Label, float] = {own_labels.get(name, name): mixed[name] for name in mixed}
    own = classifier.messages()
    messages = messages_of_both(classifier, site)
    used_costs = classifier.costs if costs is None else as_costs(costs)
    label, shares, unsure = classifier.decide(scores, used_costs, messages)
    explanation: list[Reason] = []
    if reasons and str(label) in own_labels and sum(own.values()) >= _MIN_OWN_MESSAGES:
        explanation = classifier.reasons(counted, label, reasons)
    elif reasons:
        explanation = explain(message, str(label), reasons)
    ready = str(label) in {*opinion.ready, *site.ready}
    return Verdict(
        label, shares[label], log_odds(scores, label), unsure, shares, explanation, ready
    )


def store_scores(database: Database, digest: bytes, version: str, evidence: Evidence) -> None:
    """Store both scores of a learned message, within a transaction.

    `evidence` has only the classes of the site, because the gains are fitted to these.
    """
    delete_scores(database, digest)
    database.connection.execute(
        "INSERT INTO site(digest, version, scores) VALUES (?, ?, ?)",
        (digest, version, json.dumps(evidence)),
    )
    database.connection.execute(
        "DELETE FROM site WHERE id <= (SELECT id FROM site ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (_MAX_STORED,),
    )


def delete_scores(database: Database, digest: bytes) -> None:
    """Delete the stored scores of a message, within a transaction."""
    database.create(_SCHEMA)
    database.connection.execute("DELETE FROM site WHERE digest = ?", (digest,))


def fit_gains(database: Database, labels: Sequence[str]) -> tuple[float, float]:
    """Return the gains fitted to the stored scores of learned messages.

    Damaged scores are deleted, and the gains are reset to 1.
    """
    database.create(_SCHEMA)
    rows = database.connection.execute(
        "SELECT ledger.label, scores FROM site JOIN ledger ON ledger.digest = site.digest "
        "AND ledger.removed_at IS NULL ORDER BY site.id"
    ).fetchall()
    try:
        return _fit_gains([(labels[k], json.loads(evidence)) for k, evidence in rows])
    except (ValueError, TypeError, LookupError, AttributeError):
        database.connection.execute("DELETE FROM site")
        return GAINS


def _fit_gains(examples: Sequence[tuple[str, dict[str, Any]]]) -> tuple[float, float]:
    recalibration = Recalibration(2, _LEARNING_RATE)
    gains = recalibration.shared.slopes
    gains[:] = GAINS
    for label, evidence in examples:
        if label not in evidence or len(evidence) < 2:
            continue
        class_indices = list(range(len(evidence)))
        class_scores = [
            [float(score) for score in scores] for scores in zip(*evidence.values(), strict=True)
        ]
        shares = probabilities(list(blend_scores(evidence, gains).values()))
        step = LabelStep(list(evidence).index(label), class_indices)
        recalibration.learn(class_scores, shares, step)
    own, site = gains
    return own, site
