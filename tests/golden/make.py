"""Writes what the tests of this folder compare with: when a format changes on purpose.

python tests/golden/make.py
"""

import json
from pathlib import Path

from streamnb import BernoulliNB, GaussianNB, Mailbox, MailClassifier, MultinomialNB
from streamnb.mailbox.transfer.formats import export

GOLDEN = Path(__file__).parent
TEXTS = [
    ({"free": 2, "offer": 1}, "spam"),
    ({"lunch": 1, "offer": 1}, "ham"),
    ({"free": 1, ("new", "york"): 1, 7: 2}, "spam"),
]
MAILS = [
    (b"From: Pills <pills@example.com>\nSubject: Cheap pills\n\nBuy pills now", "spam"),
    (b"From: Ann <ann@example.org>\nSubject: Lunch\n\nShall we meet at noon?", "ham"),
    (b"Subject: free offer\n\nfree offer for you", "spam"),
    (b"Subject: Re: Lunch\n\nAt noon, then. Ann", "ham"),
]

PROBES = {
    "multinomial": TEXTS[2][0],
    "bernoulli": TEXTS[2][0],
    "gaussian": {"a": 2.0, "b": 1.0},
    "mail": MAILS[2][0],
}


def models():
    """A few models that have learned something, by the name of their file."""
    trained = {"multinomial": MultinomialNB(length_norm=2.0), "bernoulli": BernoulliNB()}
    for model in trained.values():
        for x, y in TEXTS:
            model.learn_one(x, y)
    trained["gaussian"] = GaussianNB()
    for i in range(6):
        trained["gaussian"].learn_one({"a": i % 3 + 0.5, "b": i / 4}, "xy"[i % 2])
    trained["mail"] = MailClassifier()
    for mail, label in MAILS:
        trained["mail"].learn_one(mail, label)
    return trained


if __name__ == "__main__":
    scores = {}
    for name, model in models().items():
        model.save(GOLDEN / f"{name}.snb")
        scores[name] = model.joint_log_likelihood(PROBES[name])
    (GOLDEN / "expected.json").write_text(json.dumps(scores, indent=1) + "\n")
    (GOLDEN / "mail.db").unlink(missing_ok=True)
    with Mailbox(GOLDEN / "mail.db") as mailbox:
        for mail, label in MAILS:
            mailbox.learn(mail, label)
        export(mailbox, str(GOLDEN / "mail.jsonl"))
