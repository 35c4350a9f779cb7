"""Classifiers of texts and mail: verdicts, views, parameters and files."""

import io
import json
import math
import os
import random
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import (
    Classifier,
    DiscriminativeMultinomialNB,
    MailClassifier,
    MailTokenizer,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    ViewsNB,
    _core,
)
from streamnb.classifier import Costs
from streamnb.classifier.verdict import chances_of_others
from streamnb.errors import ModelFileError, OutputError
from streamnb.features.views import Views
from streamnb.mail import parse
from streamnb.scores import probabilities


def test_dropped_header_fields_are_in_no_view():
    hidden = MailClassifier(words=MailTokenizer(binary=True, drop_headers=("X-Label",)))
    bare = MailClassifier(words=MailTokenizer(binary=True, headers=False))
    for classifier, same in ((hidden, b"X-Label: spam"), (bare, b"From: a@b")):
        plain = classifier.count(b"Subject: x\n\ntext")
        other = classifier.count(b"Subject: x\n" + same + b"\n\ntext")
        assert plain == other


def decisive_words(classes, n, seed):
    """Texts of which one word in 31 tells the class."""
    numbers = random.Random(seed)
    for _ in range(n):
        k = numbers.randrange(classes)
        words = [f"o{int(20000 ** numbers.random())}" for _ in range(30)] + [f"t{k}"]
        yield " ".join(numbers.sample(words, 31)), f"class {k}"


@pytest.mark.parametrize("classes", [3, 10])
def test_one_decisive_word_among_many_classes_is_found(classes):
    errors = {}
    for complement in (True, False):
        model, wrong = TextClassifier(complement=complement, keep_names=False), 0
        for x, y in decisive_words(classes, 600, classes):
            wrong += model.predict_one(x) != y
            model.learn_one(x, y)
        errors[complement] = wrong
    assert errors[True] < 0.8 * errors[False]
    assert errors[True] < 0.2 * 600


def test_two_classes_have_no_complement_of_others():
    """For two classes both formulas are the same, so the scores are equal to the last bit."""
    models = [TextClassifier(complement=complement) for complement in (True, False)]
    for x, y in decisive_words(2, 100, 1):
        first, second = (model.joint_log_likelihood(x) for model in models)
        assert first == second
        for model in models:
            model.learn_one(x, y)


def test_the_first_message_of_a_third_class_changes_little_for_the_others():
    model = TextClassifier()
    for x, y in decisive_words(2, 300, 1):
        model.learn_one(x, y)
    texts = [x for x, _ in decisive_words(2, 50, 2)]
    before = [model.predict_proba_one(x)["class 0"] for x in texts]
    model.learn_one("a text of another kind", "class 2")
    after = [model.predict_proba_one(x)["class 0"] for x in texts]
    assert after == pytest.approx(before, abs=0.1)


def test_a_drift_with_decay_is_not_taken_for_wrong_labels():
    numbers, model = random.Random(1), TextClassifier(decay=0.99)
    right = [0] * 8
    for i in range(4000):
        k = numbers.randrange(2)
        x = " ".join(
            f"t{k}x{numbers.randrange(20)}"
            if numbers.random() < 0.3
            else f"c{numbers.randrange(99)}"
            for _ in range(15)
        )
        y = "ab"[k ^ i // 500 % 2]  # meaning swaps
        right[i // 500] += (model.predict_one(x) == y) / 500
        model.learn_one(x, y)
    assert min(right) > 0.85


def test_sure_mistakes_after_a_change_are_learned():
    """Views whose evidence is not bounded: labels are learned even if their probability is tiny."""
    model = ViewsNB([MultinomialNB(alpha=1e-3), MultinomialNB(alpha=1e-3)], bound=None)
    numbers, right = random.Random(1), []
    for i in range(4000):
        k = numbers.randrange(2)
        topic = k if i < 2000 else 1 - k  # the words of each class become the other's
        words = {f"t{topic}x{numbers.randrange(30)}": 1 for _ in range(10)}
        words |= {f"new{k}x{numbers.randrange(30)}": 1 for _ in range(3 * (i >= 2000))}
        right.append(model.predict_one([words] * 2) == k)
        model.learn_one([words] * 2, k)
    assert sum(right[3500:]) > 475


def test_a_pipeline_of_many_texts_takes_no_frame_for_texts():
    frame = pd.DataFrame({"text": ["free offer", "lunch"], "z": ["a", "b"]})
    model = Tokenizer() | MultinomialNB()
    for wrong in (frame, "free offer", {"text": ["free offer"]}):
        with pytest.raises(TypeError, match="set `on`"):
            model.learn_many(wrong, ["spam", "ham"])
    for right in (frame["text"], frame["text"].tolist()):
        model = Tokenizer() | MultinomialNB()
        model.learn_many(right, ["spam", "ham"])
        assert model.predict_many(right).tolist() == ["spam", "ham"]
    model = Tokenizer(on="text") | MultinomialNB()
    model.learn_many(frame, ["spam", "ham"])
    assert model.predict_many(frame).tolist() == ["spam", "ham"]


@pytest.mark.parametrize("others", [1, 5])
def test_the_first_messages_of_another_class_leave_verdicts_as_sure_as_they_were(others):
    words = {
        label: [f"{label}{i}" for i in range(40)] for label in ("spam", "ham", "work", "lists")
    }
    rng = random.Random(3)

    def text(label):
        common = [f"word{int(300 * rng.random() ** 3)}" for _ in range(30)]
        return " ".join(common + rng.sample(words[label], 4))

    classifier = TextClassifier()
    for _ in range(100):
        for label in ("spam", "ham"):
            classifier.learn_one(text(label), label)
    questions = [(text(label), label) for _ in range(50) for label in ("spam", "ham")]

    def sure():
        shares = [classifier.predict_proba_one(x)[label] for x, label in questions]
        return np.quantile(np.log(shares) - np.log1p(-np.array(shares)), 0.3)

    before = sure()
    for label in ("work", "lists"):
        for _ in range(others):
            classifier.learn_one(text(label), label)
    now = sure()
    assert now > 0.6 * before, (now, before)


SPAM = b"From: Pills <p@example.com>\nSubject: Cheap pills\n\nBuy pills now, cheap pills"


HAM = b"From: Ann <ann@example.org>\nSubject: Lunch\n\nShall we meet at noon for lunch?"


def trained_mail(**options):
    classifier = MailClassifier(**options)
    for i in range(10):
        classifier.learn_one(SPAM + b" %d" % i, "spam")
        classifier.learn_one(HAM + b" %d" % i, "ham")
    return classifier


def test_a_verdict():
    classifier = trained_mail()
    verdict = classifier.classify(b"Subject: pills\n\nbuy cheap pills now")
    assert verdict.label == "spam"
    assert verdict.probability == pytest.approx(1 / (1 + math.exp(-verdict.log_odds)))
    assert verdict.probabilities == classifier.predict_proba_one(
        b"Subject: pills\n\nbuy cheap pills now"
    )
    names = [reason.feature for reason in verdict.reasons]
    assert len(names) == 10
    assert {type(name) for name in names} <= {str, bytes}
    assert all(set(reason.counts) == {"spam", "ham"} for reason in verdict.reasons)
    explanation = classifier.explain_one(SPAM)
    for label, score in classifier.joint_log_likelihood(SPAM).items():
        assert explanation.scores[label] == pytest.approx(score)
        parts = sum(value[label] for value in explanation.contributions.values())
        assert explanation.base[label] + parts == pytest.approx(score)
    assert classifier.classify(parse(SPAM)) == classifier.classify(SPAM)
    assert classifier.classify(SPAM.decode()) == classifier.classify(SPAM)


@pytest.mark.parametrize(
    ("costs", "label", "unsure"),
    [
        (Costs(), "spam", True),  # .7 is too little to delete a mail, and enough to be looked at
        (Costs(10, 1, 5), "ham", False),  # looking costs more than letting a spam through
        (Costs(1, 1, 5), "spam", False),
        (Costs(1, 1, 0), "spam", True),
    ],
)
def test_costs_decide(costs, label, unsure):
    classifier = Classifier(Tokenizer(), MultinomialNB(prior={"spam": 7, "ham": 3}), costs=costs)
    classifier.learn_one("", "spam")
    classifier.learn_one("", "ham")
    verdict = classifier.classify("")
    assert verdict.probability == pytest.approx(0.7 if label == "spam" else 0.3)
    assert (verdict.label, verdict.unsure) == (label, unsure)


@pytest.mark.parametrize(
    ("messages", "unsure"),
    [
        ({"spam": 1000, "ham": 1000}, False),
        ({"spam": 1, "ham": 1}, True),
        ({"spam": 1000, "ham": 3}, True),
        ({"spam": 1000, "ham": 1000, "list": 3}, False),  # which has just come
        ({"spam": 1000, "ham": 1000, **dict.fromkeys("abcdefghij", 2)}, False),
        ({"spam": 1000, "ham": 3, "list": 3}, True),
        ({"spam": 1, "ham": 1, "list": 1}, True),
        ({"spam": 60, "ham": 60}, False),
        ({"spam": 60, "ham": 60, "slip": 0}, False),  # which was unlearned
    ],
)
def test_a_verdict_depends_on_the_messages_of_other_classes(messages, unsure):
    scores = dict.fromkeys(messages, -12.0) | {"spam": 0.0}
    label, _, result = MailClassifier().decide(scores, Costs(), messages)
    assert (label, result) == ("spam", unsure)


def test_the_unsure_rule_follows_its_formula_with_many_classes():
    """Against the formula, computed for one label at a time."""
    chance = random.Random(5)
    for k in (1, 2, 3, 40):
        scores = {c: chance.gauss(0, 2) for c in range(k)}
        messages = {c: chance.choice([0, 0.5, 3, 1000]) for c in range(k)}
        shares = dict(zip(scores, probabilities(list(scores.values())), strict=True))
        result = chances_of_others(shares, messages)
        for label in scores:
            others = [other for other in scores if other != label]
            active = [messages[other] + 1 for other in others if messages[other]]
            new = len(active) / math.fsum(active) if active else 1.0
            unlike = math.fsum(shares[other] for other in others)
            own = 1 / (messages[label] + 1)
            assert result[label] == pytest.approx((unlike + new) / (1 + new + own), rel=1e-9)


def test_the_unsure_rule_is_stable_with_a_huge_class():
    result = chances_of_others({"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 1e17, "b": 1.0, "c": 1.0})
    assert all(0 < chance < 1 for chance in result.values())


@pytest.mark.performance
def test_classifying_takes_time_in_proportion_to_the_classes():
    classifier = TextClassifier()
    for number in range(3000):
        classifier.learn_one(f"item of kind k{number}", number)
    begun = time.process_time()
    verdict = classifier.classify("item of kind k9", reasons=0)
    assert verdict.label == 9
    assert time.process_time() - begun < 0.3  # comparing all pairs of classes would take a second


def test_weights_below_one_make_a_class_ready():
    classifier = TextClassifier()
    for number in range(100):
        for label, text in (("spam", "buy cheap pills {}"), ("ham", "lunch at noon {}")):
            classifier.learn_one(text.format(number), label, w=0.9)
    assert classifier.classify("cheap pills").ready


def test_a_class_is_ready_once_a_clear_message_of_it_can_be_sure():
    """With fewer than fifty ham messages, a new kind of ham is so probable that no verdict is surely spam."""
    classifier = TextClassifier()
    ready = []
    for number in range(60):
        for label, text in (("spam", "buy cheap pills {}"), ("ham", "lunch at noon {}")):
            classifier.learn_one(text.format(number), label)
        result = classifier.classify("buy cheap pills cheap pills buy pills")
        assert classifier.is_ready("spam") >= (result.ready and not result.unsure)
        ready.append(classifier.is_ready("spam"))
    assert ready == sorted(ready)
    assert classifier.model.is_ready("spam")
    assert 40 < ready.index(True) < 55
    assert not classifier.is_ready("what is not known")


def test_a_new_class_does_not_make_others_unsure():
    classifier = TextClassifier()
    texts = {"spam": "buy cheap pills now {}", "ham": "lunch at noon in room {}"}
    for number in range(300):
        for label, text in texts.items():
            classifier.learn_one(text.format(number), label)
    questions = {label: text.format("seven") for label, text in texts.items()}
    before = {label: classifier.classify(text) for label, text in questions.items()}
    for number in range(3):
        classifier.learn_one(f"minutes of the chess club {number}", "chess")
    for label, text in questions.items():
        assert (before[label].label, before[label].unsure) == (label, False)
        verdict = classifier.classify(text)
        assert (verdict.label, verdict.unsure) == (label, False)


def test_before_anything_is_learned():
    classifier = MailClassifier()
    verdict = classifier.classify(SPAM)
    assert (verdict.label, verdict.unsure, verdict.reasons) == (None, True, [])
    assert classifier.predict_one(SPAM) is None
    classifier.learn_one(SPAM, "spam")
    assert classifier.classify(HAM).unsure
    assert classifier.classify(HAM).log_odds == 0


def test_in_a_river_evaluation():
    from river import evaluate, metrics

    stream = [({"body": SPAM}, True), ({"body": HAM}, False)] * 10
    metric = evaluate.progressive_val_score(
        stream, MailClassifier(on="body", positive=True), metrics.Accuracy()
    )
    assert metric.get() > 0.9


def test_parameters_change_after_training():
    classifier = trained_mail()
    before = classifier.joint_log_likelihood(SPAM)
    classifier.alpha = 1.0
    assert classifier.joint_log_likelihood(SPAM) != before
    assert all(model.alpha == 1.0 for model in classifier.model.models)
    clone = classifier.clone()
    assert clone.alpha == 1.0
    assert clone.predict_one(SPAM) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: trained_mail(label_noise=0.05, decay=0.99),
        lambda: trained_mail(views=("bytes",), words=MailTokenizer(ngrams=(1, 2))),
        lambda: trained_mail(discriminative=False, keep_names=False),
    ],
)
def test_a_classifier_is_saved_whole(tmp_path, make):
    classifier = make()
    classifier.save(tmp_path / "m")
    restored = Classifier.load(tmp_path / "m")
    for message in (SPAM, HAM, b"", b"Subject: pills\n\nlunch"):
        assert restored.classify(message) == classifier.classify(message)
    classifier.learn_one(b"Subject: other\n\nthing", "ham")
    restored.learn_one(b"Subject: other\n\nthing", "ham")
    assert restored.joint_log_likelihood(SPAM) == classifier.joint_log_likelihood(SPAM)
    restored.save(tmp_path / "n")
    classifier.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_a_model_without_a_tokenizer_is_not_loaded_as_a_classifier(tmp_path):
    MultinomialNB().save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="without its tokenizer"):
        Classifier.load(tmp_path / "m")


@given(st.floats(-700, 700))
def test_exponentials_are_those_of_the_library(x):
    assert _core.exp(x) == pytest.approx(math.exp(x), rel=4e-16)


def test_exponentials_at_the_edges():
    assert _core.exp(0.0) == 1.0
    assert _core.exp(-1e9) == 0.0
    assert _core.exp(1e9) == math.inf
    assert math.isnan(_core.exp(math.nan))
    assert _core.exp(-740.0) == pytest.approx(math.exp(-740), rel=1e-6)


def test_the_cache_of_a_message_ends_with_the_counts():
    tokens = Tokenizer().count("free")
    model = DiscriminativeMultinomialNB()
    model.fit(np.eye(2), ["a", "b"])
    model.learn_one(tokens, "a")
    first = model.predict_proba_one(tokens)
    model.fit(np.eye(2), ["a", "b"])
    model.learn_one(tokens, "b")
    assert model.predict_proba_one(tokens) != first
    fresh = Tokenizer().count("free")
    assert model.predict_proba_one(tokens) == model.predict_proba_one(fresh)
    model.log_likelihoods(tokens).clear()
    assert model.predict_proba_one(tokens) == model.predict_proba_one(fresh)


def test_explanations_keep_views_apart():
    views = Views([Tokenizer(), Tokenizer(analyzer="char", ngrams=(1, 1))], mail=False)
    classifier = Classifier(views, ViewsNB([MultinomialNB(), MultinomialNB()]))
    for text, y in [("a b", "x"), ("c d", "y"), ("a c", "x")]:
        classifier.learn_one(text, y)
    explanation = classifier.explain_one("a b c")
    for label, score in classifier.joint_log_likelihood("a b c").items():
        parts = sum(value[label] for value in explanation.contributions.values())
        assert explanation.base[label] + parts == pytest.approx(score)


def test_parameters_that_determined_the_counts_are_fixed():
    classifier = trained_mail()
    for name, value in {"ngram_max": 3, "views": ("words",), "discriminative": False}.items():
        with pytest.raises(ValueError, match=f"{name}: cannot change"):
            setattr(classifier, name, value)
    classifier.label_noise, classifier.rate = 0.0, 0.1
    assert (
        classifier.model.calibration.noise.rate,
        classifier.model.calibration.recalibration.rate,
    ) == (0.0, 0.1)
    with pytest.raises(ValueError, match="alpha: -1"):
        classifier.alpha = -1
    assert classifier.alpha == 0.1
    for rate in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="rate: "):
            MailClassifier(rate=rate)


@pytest.mark.parametrize("views", [None, ("pairs", "bytes"), ("header", "words")])
def test_a_clone_of_a_saved_classifier_reads_what_it_read(views, tmp_path):
    words = MailTokenizer(binary=True, drop_headers=("x-answer",))
    classifier = MailClassifier(views=views, words=words)
    mail = b"X-Answer: secret\nSubject: hello\n\ntext of a mail"
    classifier.save(tmp_path / "model.snb")
    loaded = MailClassifier.load(tmp_path / "model.snb")
    expected = classifier.count(mail)
    for other in (classifier.clone(), loaded, loaded.clone()):
        assert other.count(mail) == expected
        assert other.views == views
        assert other.view_names == classifier.view_names


def test_another_preset_has_other_views():
    small = MailClassifier(preset="small")
    assert "pairs" not in small.view_names
    assert "pairs" in small.clone({"preset": "default"}).view_names


def test_a_preset_that_had_other_views_is_read_with_those(tmp_path, monkeypatch):
    monkeypatch.setitem(MailClassifier.presets, "default", ("words", "bytes"))
    old = MailClassifier()
    old.learn_one(b"Subject: pills\n\ncheap pills", "spam")
    old.save(tmp_path / "model.snb")
    monkeypatch.undo()
    loaded = MailClassifier.load(tmp_path / "model.snb")
    assert loaded.view_names == ("words", "bytes")
    assert (loaded.views, len(loaded.clone().view_names)) == (None, 4)


class OwnModel(MultinomialNB):
    pass


class OwnTokenizer(Tokenizer):
    pass


class OwnClassifier(TextClassifier):
    pass


@pytest.mark.parametrize(
    "own",
    [
        OwnModel(),
        Classifier(Tokenizer(), OwnModel()),
        Classifier(OwnTokenizer(), MultinomialNB()),
        OwnClassifier(),
    ],
    ids=lambda own: type(own).__name__,
)
def test_a_file_that_could_not_be_read_again_is_not_written(own, tmp_path):
    with pytest.raises(OutputError, match=r"model\.snb: .*Own\w+"):
        own.save(tmp_path / "model.snb")
    assert not (tmp_path / "model.snb").exists()


def test_a_saved_classifier_knows_its_key(tmp_path):
    classifier = TextClassifier(on="body", alpha=np.float64(0.2))
    classifier.learn_one({"body": "free offer"}, "spam")
    classifier.learn_one({"body": "lunch"}, "ham")
    classifier.save(tmp_path / "m")
    restored = Classifier.load(tmp_path / "m")
    assert restored.predict_one({"body": "offer"}) == "spam"
    before = restored.joint_log_likelihood({"body": "offer"})
    restored.alpha = 2.0
    assert restored.joint_log_likelihood({"body": "offer"}) != before


def test_models_are_written_where_links_lead_and_never_over_devices(tmp_path):
    model = trained_mail()
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="pipe: the model cannot be written: not a regular file"):
        model.save(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        Classifier.load(tmp_path / "pipe")
    with pytest.raises(OutputError, match="cannot be written"):
        model.save("a\0b")


HOSTILE = {
    "other views": lambda h: h["extra"]["tokenizer"]["views"].pop(),
    "no views": lambda h: h["extra"].update(tokenizer={"kind": "Views", "views": [], "mail": True}),
    "nested views": lambda h: h["extra"]["tokenizer"]["views"].insert(
        0, json.loads(json.dumps(h["extra"]["tokenizer"]))
    ),
    "one tokenizer": lambda h: h["extra"].update(tokenizer=h["extra"]["tokenizer"]["views"][0]),
    "a key for a mail": lambda h: h["extra"]["tokenizer"]["views"][0]["options"].update(on="x"),
    "no list of fields": lambda h: h["extra"]["tokenizer"]["views"][0]["options"].update(
        drop_headers=5
    ),
    "fields that are no text": lambda h: h["extra"]["tokenizer"]["views"][0]["options"].update(
        drop_headers=[1]
    ),
    "text tokens of mail": lambda h: h["extra"]["tokenizer"]["views"][0].update(
        kind="Tokenizer", options={}
    ),
    "huge grams": lambda h: h["extra"]["tokenizer"]["views"][1]["options"].update(first=1 << 40),
    "another option": lambda h: h["extra"]["tokenizer"]["views"][1]["options"].update(colour="x"),
    "counts without messages": lambda h: h["view_models"][0].update(weights=[0, 0]),
    "a huge number of labels": lambda h: h["noise"].update(labels=[10**400, 10]),
    "a noise of nan": lambda h: h["noise"].update(rates=[math.nan, 0.1]),
    "a rate of nan": lambda h: h["recalibration"].update(rate=math.nan),
    "a negative gain": lambda h: h["recalibration"]["systems"]["0"]["recalibration"].update(
        slopes=[-5e3, 1.0]
    ),
    "a huge bias": lambda h: h["recalibration"]["systems"]["1"]["recalibration"].update(
        intercepts=[1e308, -1e308]
    ),
    "costs of nan": lambda h: h["extra"].update(costs=[math.nan, 1, 1]),
    "a list for a key": lambda h: h["extra"].update(on=[]),
    "no recalibration": lambda h: h.pop("recalibration"),
    "nothing beside": lambda h: h.update(extra=3),
}


@pytest.mark.parametrize("damage", HOSTILE.values(), ids=HOSTILE)
def test_hostile_classifier_files_are_refused(tmp_path, damage):
    trained_mail().save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
    damage(header)
    out = io.BytesIO()
    np.save(out, np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
    members["header.npy"] = out.getvalue()
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ModelFileError, match=r".+/m: .+") as caught:
        Classifier.load(tmp_path / "m")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "views"),
    [(MailClassifier, ("header", "body", "bytes")), (TextClassifier, ("words", "bytes"))],
)
def test_the_small_preset_has_fewer_views(make, views, tmp_path):
    small = make(preset="small")
    assert small.view_names == views
    assert len(small.models) == len(views)
    small.save(tmp_path / "small.snb")
    assert make.load(tmp_path / "small.snb").clone().views == small.views
    assert make(preset="small", views=("words",)).views == ("words",)
    with pytest.raises(ValueError, match="preset"):
        make(preset="large")


def test_classifiers_with_equal_tokenizers_merge():
    parts = [Classifier(Tokenizer(), MultinomialNB()) for _ in range(2)]
    parts[0].learn_one("free offer", "spam")
    parts[1].learn_one("lunch at noon", "ham")
    parts[0].merge(parts[1])
    whole = Classifier(Tokenizer(), MultinomialNB())
    whole.learn_many(["free offer", "lunch at noon"], ["spam", "ham"])
    assert parts[0].predict_proba_one("free lunch") == whole.predict_proba_one("free lunch")
    with pytest.raises(ValueError, match="the tokenizers differ"):
        whole.merge(Classifier(Tokenizer(ngrams=(1, 2)), MultinomialNB()))


def test_classifiers_with_one_function_as_tokenizer_merge():
    parts = [Classifier(str.split, MultinomialNB()) for _ in range(2)]
    parts[0].learn_one("free offer", "spam")
    parts[1].learn_one("lunch", "ham")
    parts[0].merge(parts[1])
    assert parts[0].predict_one("lunch") == "ham"
    with pytest.raises(ValueError, match="the tokenizers differ"):
        parts[0].merge(Classifier(str.splitlines, MultinomialNB()))
