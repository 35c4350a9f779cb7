"""What is said of a message: by a mailbox, over a socket, and in a header."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamnb import __version__

if TYPE_CHECKING:
    from streamnb.mailbox.store import Mailbox

FIELD = "X-Streamnb"

_MOST_PROBABLE = (1.0, 1.0, 1e9)  # costs of whoever decides for the most probable class, always


class JudgeOptions(NamedTuple):
    """How a message is judged.

    Attributes
    ----------
    reasons
        How many reasons to give.
    threshold
        Probability from which on a class is sure, in place of what mistakes cost; None for the
        costs.
    costs
        What a false alarm, a miss and a look cost; None for those of the classifier.
    """

    reasons: int = 0
    threshold: float | None = None
    costs: tuple[float, float, float] | None = None


_PLAIN = JudgeOptions()


class Response(NamedTuple):
    """What is said of a message, as it goes over a socket.

    Attributes
    ----------
    mark
        "S" for spam, "H" for ham, "U" where it is unsure or not ready; the class where it is
        another one.
    status
        Exit status: 0 for spam, 1 for anything else, 2 for unsure.
    score
        Log-odds of spam; of the class where there are others than ham and spam.
    label
        The class; None where nothing was learned.
    probability
        Its probability.
    reasons
        Features and what they added to the log-odds of the class.
    ready
        Whether the class was called rightly often enough that nobody needs to look.
    """

    mark: str
    status: int
    score: float
    label: str | None
    probability: float
    reasons: list[tuple[str, float]]
    ready: bool = True


def judge(mailbox: Mailbox, message: bytes, question: JudgeOptions = _PLAIN) -> Response:
    """Ask a mailbox what a message is."""
    costs = question.costs if question.threshold is None else _MOST_PROBABLE
    verdict = mailbox.classify(message, question.reasons, costs)
    if verdict.label is None:
        return Response("U", 2, 0.0, None, 0.0, [], False)
    label = str(verdict.label)
    # A class of which all was taken back is none: of spam and ham the score is that of spam.
    messages = mailbox.classifier.messages()
    alive = {str(y) for y, p in verdict.probabilities.items() if p > 0 or messages.get(y) != 0}
    two = alive <= {"ham", "spam"}
    score = verdict.log_odds if not two or label == "spam" else -verdict.log_odds
    unsure = (
        verdict.unsure or not verdict.ready or verdict.probability < (question.threshold or 0.0)
    )
    mark = {"spam": "S", "ham": "H"}.get(label, label)
    return Response(
        "U" if unsure else mark,
        2 if unsure else int(label != "spam"),
        min(max(score, -1e9), 1e9) + 0.0,  # JSON knows no infinity, and nobody a zero below zero
        label,
        verdict.probability,
        [(str(reason.feature), reason.log_odds) for reason in verdict.reasons],
        verdict.ready,
    )


def header_field(answer: Response) -> str:
    """The header field that tells a verdict.

    Examples
    --------
    >>> from streamnb.mailbox.service.response import Response
    >>> header_field(Response("S", 0, 3.25, "spam", 0.9627, []))[:50]
    'X-Streamnb: Spam, score=3.2500, probability=0.9627'
    """
    words = {"S": "Spam", "H": "Ham", "U": "Unsure"}
    named = "".join(c for c in answer.mark if c.isalnum() or c in "-_.")
    mark = words.get(answer.mark, named).encode("ascii", "replace").decode()
    return (
        f"{FIELD}: {mark}, score={answer.score:.4f}, probability={answer.probability:.4f}, "
        f"version={__version__}"
    )
