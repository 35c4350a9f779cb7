"""The rates of wrong labels, and models that estimate them."""

import random

import pytest

from streamnb import MailClassifier, TextClassifier
from streamnb.corpus import open_corpus, read
from streamnb.naive_bayes.label_noise import LabelNoise


@pytest.mark.parametrize("share", [-0.1, 0.5, 1])
def test_shares_of_wrong_labels_have_bounds(share):
    with pytest.raises(ValueError, match="label_noise"):
        LabelNoise(share)


@pytest.mark.parametrize(
    ("right", "wrong", "least", "most"),
    [
        ((0.6, 0.7, 0.8), 0, 0, 0.1),  # classes overlap: nothing but the mean shows a rate
        ((0.7,), 0, 0, 0.1),
        ((0.999,), 0.1, 0.08, 0.12),
        ((0.9, 0.95, 0.99), 0.3, 0.25, 0.35),
    ],
)
def test_the_share_of_wrong_labels_where_classes_overlap(right, wrong, least, most):
    chance, noise = random.Random(1), LabelNoise()
    for _ in range(3000):
        p = chance.choice(right)
        predicted = chance.randrange(2)
        proba = [p if k == predicted else 1 - p for k in range(2)]
        true = predicted if chance.random() < p else 1 - predicted
        label = true if chance.random() >= wrong else 1 - true
        posterior, *_ = noise.posterior(proba, [0, 1], label)
        noise.learn(posterior, [0, 1], label)
    assert least <= noise.rate <= most


@pytest.mark.parametrize("wrong", [(0.3, 0.0), (0.0, 0.2, 0.1)])
def test_each_class_has_its_rate_of_wrong_labels(wrong):
    chance, noise, n = random.Random(3), LabelNoise(), len(wrong)
    active = list(range(n))
    for _ in range(3000 * n):
        true = chance.randrange(n)
        label = true
        if chance.random() < wrong[true]:
            label = (true + chance.randrange(1, n)) % n
        proba = [0.99 if k == true else 0.01 / (n - 1) for k in active]
        posterior, *_ = noise.posterior(proba, active, label)
        noise.learn(posterior, active, label)
    assert noise.rates(active) == pytest.approx(list(wrong), abs=0.03)


def test_unlearning_wrong_labels_leaves_a_usable_model(tmp_path):
    chance, model, wrong = random.Random(2), TextClassifier(), []
    texts = ["buy cheap pills {}", "lunch at noon {}"]
    for i in range(1000):
        text, flipped = texts[i % 2].format(chance.randrange(300)), chance.random() < 0.15
        model.learn_one(text, (i + flipped) % 2)
        if flipped:
            wrong.append((text, (i + 1) % 2, model.receipt))
    views, share = model.model, model.model.calibration.noise.rate
    for text, label, receipt in wrong:
        model.unlearn_one(text, label, receipt=receipt)
    assert views.calibration.noise.state()["noise"]["rates"][0] < -1
    model.save(tmp_path / "model.snb")
    assert (
        TextClassifier.load(tmp_path / "model.snb").model.calibration.noise.state()
        == views.calibration.noise.state()
    )
    # A message learned meanwhile must not depend on the messages that are learned again after it.
    model.learn_one(texts[0].format(7), 0)
    for text, label, receipt in wrong:
        views.reapply(model.count(text), label, receipt)
    assert views.calibration.noise.rate == pytest.approx(share, abs=0.01)


def test_no_label_is_doubted_with_label_noise_0():
    trusting, doubting = TextClassifier(label_noise=0.0), TextClassifier()
    for classifier in (trusting, doubting):
        for _ in range(100):
            classifier.learn_one("cheap pills", "spam")
            classifier.learn_one("lunch at noon", "ham")
        classifier.learn_one("lunch at noon", "spam")
    assert max(trusting.receipt.view_weights) > 0.9
    assert max(doubting.receipt.view_weights) == 0
    assert trusting.model.label_proba_one(trusting.count("lunch")) == pytest.approx(
        trusting.predict_proba_one("lunch")
    )


def test_a_small_overlapping_class_is_still_predicted():
    """Recall of a class of 6 %, beside that of a model that believes every label."""
    recalls = []
    for label_noise in (None, 0.0):
        numbers, model, right, n = random.Random(4), TextClassifier(label_noise=label_noise), 0, 0
        for i in range(3000):
            y = numbers.random() < 0.06
            words = [f"w{numbers.randrange(120)}" for _ in range(8)]
            words += [
                f"{'s' if numbers.random() < (0.75 if y else 0.06) else 'c'}{numbers.randrange(20)}"
                for _ in range(2)
            ]
            x = " ".join(words)
            if i >= 1000 and y:
                n += 1
                right += model.predict_one(x) is True
            model.learn_one(x, y)
        recalls.append(right / n)
    assert recalls[0] > 0.9 * recalls[1] - 0.02


@pytest.mark.corpora
def test_spam_of_a_source_whose_ham_came_first_is_not_taken_for_wrong_labels(corpora):
    """Most mail of the source is ham, so even the first predictions for its spam are sure of ham."""
    sources = {
        name: list(open_corpus(corpora / name))
        for name in ("spamassassin", "enron1", "enron3", "enron5")
    }
    places = sorted((i / len(s), name, i) for name, s in sources.items() for i in range(len(s)))
    classifier = MailClassifier()
    learned = []  # whether each spam of the source was learned at all
    for _, name, i in places[:600]:
        entry = sources[name][i]
        receipt = classifier.learn(read(entry), entry.label)
        if (name, entry.label) == ("spamassassin", "spam"):
            learned.append(max(receipt.view_weights) > 0)
    assert len(learned) == 56
    assert sum(learned) > 45
