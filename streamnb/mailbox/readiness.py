"""Description of the messages that a class needs before its verdicts can be sure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress

from streamnb.classifier import Classifier
from streamnb.counts.protocol import Label
from streamnb.errors import StreamNBError
from streamnb.mailbox.blend import Opinion, messages_of_both
from streamnb.mailbox.mailbox import Mailbox
from streamnb.naive_bayes.online_estimator import ClassReliability

_MAX_MESSAGES = 1 << 20  # messages of other classes; more do not make a class ready


def site_opinion(mailbox: Mailbox) -> Opinion | None:
    """Return messages and ready classes of the site's model; None without a usable model."""
    with suppress(StreamNBError):
        return None if mailbox.base is None else mailbox.base.opinion(b"")
    return None


def readiness_by_label(mailbox: Mailbox, labels: Iterable[Label] | None = None) -> dict[str, str]:
    """Return the `readiness` of classes, with the site's model; of all classes for None."""
    site = site_opinion(mailbox)
    with mailbox.reading():
        return {
            str(label): readiness(mailbox.classifier, label, site)
            for label in (mailbox.active_labels if labels is None else labels)
        }


def is_ready(classifier: Classifier, label: Label, site: Opinion | None) -> bool:
    """Return whether a verdict of this class can be sure, with the site's model."""
    is_proven = classifier.model.is_ready(label) or _is_ready_at(site, label)
    messages = messages_of_both(classifier, site)
    return is_proven and classifier.is_sure_of_clear(label, messages)


def _is_ready_at(site: Opinion | None, label: Label) -> bool:
    return site is not None and str(label) in site.ready


def readiness(classifier: Classifier, label: Label, site: Opinion | None = None) -> str:
    """Describe the messages that a class needs to be ready; "ready" if it is.

    A class is ready under two conditions. It has enough correct predictions, each made before the
    message was learned. The other classes have enough messages: after a few messages, their next
    one is probably of a new kind, which the model cannot recognise.

    Examples
    --------
    >>> from streamnb import MailClassifier
    >>> classifier = MailClassifier()
    >>> for label in ("spam", "ham"):
    ...     _ = classifier.learn_one(b"Subject: " + label.encode(), label)
    >>> readiness(classifier, "spam")
    'sure after about 20 more spam and 45 more ham messages'
    """
    with classifier.model.lock:
        if is_ready(classifier, label, site):
            return "ready"
        messages = messages_of_both(classifier, site)
        is_own = label in classifier.messages()
        record = classifier.model.reliability_counts(label) if is_own else (0, 0)
        others = {y: n for y, n in messages.items() if y != label and n > 0}
        other_count = _missing_others(classifier, label, messages, others)
    own_count = 0
    if record is not None and not _is_ready_at(site, label):
        correct, wrong = record
        needed = max(ClassReliability.MIN_CORRECT, ClassReliability.CORRECT_PER_WRONG * wrong)
        own_count = max(needed - correct, 0)
    if not messages.get(label):
        own_count = max(own_count, 1)
    other_name = next(iter(others)) if len(others) == 1 else None
    if other_name is None and not others and label in ("spam", "ham"):
        other_name = "ham" if label == "spam" else "spam"
    counts = [(own_count, str(label)), (other_count, str(other_name or "other"))]
    parts = [f"{count:,} more {name}" for count, name in counts if count]
    if not parts:  # with these costs, no number of messages is enough
        return "never sure with these costs"
    last_count = next(count for count, _ in reversed(counts) if count)
    return f"sure after about {' and '.join(parts)} message{'s' if last_count > 1 else ''}"


def _missing_others(
    classifier: Classifier, label: Label, messages: dict[Label, float], others: dict[Label, float]
) -> int:
    """Return the number of missing messages of other classes; 0 if more messages do not help."""
    largest = max(others, key=others.__getitem__, default=None)
    if largest is None:
        largest = "ham" if label == "spam" else "spam" if label == "ham" else "other"

    def is_sure(extra: int) -> bool:
        counts = dict(messages)
        counts[label] = max(counts.get(label, 0.0), float(ClassReliability.MIN_CORRECT))
        counts[largest] = counts.get(largest, 0.0) + extra
        return classifier.is_sure_of_clear(label, counts)

    if not is_sure(_MAX_MESSAGES):
        return 0
    return bisect_left(range(_MAX_MESSAGES), True, key=is_sure)
