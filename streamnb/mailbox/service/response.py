"""The verdict on a message for programs: by socket, by HTTP, and in a header field."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamnb import __version__

if TYPE_CHECKING:
    from streamnb.mailbox.mailbox import Mailbox
    from streamnb.mailbox.site_model import Guest

FIELD = "X-Streamnb"

_ALWAYS_SURE = (1.0, 1.0, 1e9)  # costs with which the most probable class always wins
_WORDS = {"S": "Spam", "H": "Ham", "U": "Unsure"}
_UNESCAPED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
# limit in bytes of an encoded class: a header line has at most 998 bytes
_LONGEST_NAME = 900


class JudgeOptions(NamedTuple):
    """Options of a verdict.

    Attributes
    ----------
    reasons
        Number of reasons to return.
    threshold
        Minimum probability of a sure verdict. None to decide by the costs.
    costs
        Costs of a false alarm, a missed spam and an unsure message. None for the classifier's.
    """

    reasons: int = 0
    threshold: float | None = None
    costs: tuple[float, float, float] | None = None

    @property
    def decision_costs(self) -> tuple[float, float, float] | None:
        """The costs that decide about this verdict; None for the costs of the classifier."""
        return self.costs if self.threshold is None else _ALWAYS_SURE

    def is_sure(self, probability: float) -> bool:
        """Return whether a probability reaches the threshold; True if there is no threshold."""
        return self.threshold is None or probability >= self.threshold


_DEFAULTS = JudgeOptions()


class Response(NamedTuple):
    """The verdict on a message.

    Attributes
    ----------
    mark
        "S" for spam, "H" for ham, "U" for unsure or not ready, else the name of the class.
    status
        Exit status: 0 for spam, 1 for any other class, 2 for unsure.
    score
        Log-odds of spam, in nats. With classes other than ham and spam, the log-odds of the most
        probable class.
    label
        The most probable class. None if the mailbox has learned nothing.
    probability
        The probability of `label`.
    reasons
        Features, each with its contribution to the score in nats. Positive ones are evidence for
        the class of the score.
    ready
        Whether the class has enough correct predictions, so programs can act without review.
    """

    mark: str
    status: int
    score: float
    label: str | None
    probability: float
    reasons: list[tuple[str, float]]
    ready: bool = True


def judge(mailbox: Mailbox | Guest, message: bytes, options: JudgeOptions = _DEFAULTS) -> Response:
    """Classify a message and return the verdict.

    Raises
    ------
    StreamNBError
        If the database cannot be read. If the mailbox has learned nothing, and the site's model
        cannot be read.
    """
    from streamnb.classifier.verdict import feature_name  # here: a client starts without numpy

    verdict = mailbox.classify(message, options.reasons, options.decision_costs)
    if verdict.label is None:
        error = None if mailbox.base is None else mailbox.base.error
        if error is not None:  # a model that cannot be read might give a verdict
            raise error
        return Response("U", 2, 0.0, None, 0.0, [], False)
    label = str(verdict.label)
    # With only ham and spam, the score is that of spam.
    inverted = set(map(str, verdict.probabilities)) <= {"ham", "spam"} and label != "spam"
    sign = -1.0 if inverted else 1.0
    score = sign * verdict.log_odds
    unsure = verdict.unsure or not verdict.ready or not options.is_sure(verdict.probability)
    mark = {"spam": "S", "ham": "H"}.get(label, label)
    return Response(
        "U" if unsure else mark,
        2 if unsure else int(label != "spam"),
        min(max(score, -1e9), 1e9) + 0.0,  # JSON has no infinity; + 0.0 changes -0.0 to 0.0
        label,
        verdict.probability,
        [
            (feature_name(reason.feature), sign * reason.log_odds + 0.0)
            for reason in verdict.reasons
        ],
        verdict.ready,
    )


def encode_label(label: str) -> str:
    """Return the name of a class as encoded in the header field.

    ASCII letters, digits and ``-_.`` stay. Every other byte of the name in UTF-8 becomes ``%XX``
    (RFC 3986, 2.1), so two classes never look alike. If a class is named like a verdict (Spam,
    Ham, Unsure, in any case), its first letter is encoded.

    Examples
    --------
    >>> encode_label("work"), encode_label("счета"), encode_label("Unsure")
    ('work', '%D1%81%D1%87%D0%B5%D1%82%D0%B0', '%55nsure')
    """
    name = label.encode("utf-8", "surrogatepass")
    encoded = "".join(chr(byte) if byte in _UNESCAPED else f"%{byte:02X}" for byte in name)
    if label.lower() in {word.lower() for word in _WORDS.values()}:
        encoded = f"%{name[0]:02X}{encoded[1:]}"
    return encoded[:_LONGEST_NAME]


def header_field(response: Response) -> str:
    """Return the header field of a verdict, in ASCII, without a line end.

    Examples
    --------
    >>> from streamnb.mailbox.service.response import Response
    >>> header_field(Response("S", 0, 3.25, "spam", 0.9627, []))[:50]
    'X-Streamnb: Spam, score=3.2500, probability=0.9627'
    """
    name = _WORDS.get(response.mark) or encode_label(response.mark)
    return (
        f"{FIELD}: {name}, score={response.score:.4f}, probability={response.probability:.4f}, "
        f"version={__version__}"
    )
