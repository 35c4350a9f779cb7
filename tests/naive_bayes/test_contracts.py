"""Contracts that every text model and classifier keeps."""

import copy
import math
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from river import checks

from streamnb import (
    BernoulliNB,
    Classifier,
    ComplementNB,
    DiscriminativeMultinomialNB,
    GaussianNB,
    MailClassifier,
    MailTokenizer,
    MultinomialNB,
    TextClassifier,
    TokenCounts,
    Tokenizer,
    ViewsNB,
    WindowNB,
)
from streamnb.features.views import Views
from streamnb.naive_bayes.contexts import ContextNB
from streamnb.sklearn import MultinomialNB as MultinomialEstimator

MODELS = {
    "views": ViewsNB([DiscriminativeMultinomialNB(), MultinomialNB()]),
    "one view": ViewsNB(),
    "window": WindowNB(MultinomialNB(), 100),
    "window over views": WindowNB(ViewsNB(), 100),
}
CLASSIFIERS = {
    "any": Classifier(Tokenizer(), MultinomialNB()),
    "any of views": Classifier(
        Views([Tokenizer(), Tokenizer()], mail=False), MODELS["views"].clone()
    ),
    "text": TextClassifier(),
    "mail": MailClassifier(),
}
SINGLE = {
    model_class.__name__: model_class()
    for model_class in (MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB)
}


class OfRows:
    """River's checks come with rows of numbers: here they are written down as text."""

    def count(self, x):
        return super().count(" ".join(f"{name} {value:.3g}" for name, value in sorted(x.items())))


class AnyOfRows(OfRows, Classifier):
    """Any tokenizer and model."""


class TextOfRows(OfRows, TextClassifier):
    """The default for text."""


class MailOfRows(OfRows, MailClassifier):
    """The default for mail."""


CHECKED = {
    **MODELS,
    "any": AnyOfRows(Tokenizer(), MultinomialNB()),
    "any of views": AnyOfRows(CLASSIFIERS["any of views"].tokenizer, MODELS["views"].clone()),
    "text": TextOfRows(),
    "mail": MailOfRows(),
}
PAIRS = [(name, check) for name, model in CHECKED.items() for check in checks.yield_checks(model)]


@pytest.mark.parametrize(("name", "check"), PAIRS, ids=lambda part: getattr(part, "__name__", part))
def test_river_contract(name, check):
    check(CHECKED[name].clone())


TEXTS = [("free offer now", "spam"), ("lunch at noon", "ham"), ("free lunch", "ham"), ("buy now", "spam")] * 5  # fmt: skip


def message(text):
    return dict.fromkeys(text.split(), 1)


def train(model):
    for text, label in TEXTS:
        model.learn_one(text if isinstance(model, Classifier) else message(text), label)
    return model


ALL = {**MODELS, **CLASSIFIERS, **SINGLE}
every = pytest.mark.parametrize("name", ALL)


@every
def test_a_clone_has_learned_nothing(name):
    model = train(ALL[name].clone())
    probe = "free" if isinstance(model, Classifier) else {"free": 1}
    before = model.predict_proba_one(probe)
    clone = model.clone()
    assert clone.labels == []
    assert clone.predict_proba_one(probe) == {}
    train(clone)
    assert clone.predict_proba_one(probe) == pytest.approx(before)
    assert model.predict_proba_one(probe) == before


class TwoViews(ViewsNB):
    """A subclass that creates its own view models."""

    def __init__(self, rate: float = 0.2):
        super().__init__([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()], rate=rate)


def test_a_subclass_with_a_constructor_of_its_own_can_be_cloned():
    model = TwoViews(rate=0.1)
    model.learn_one([{"free": 1}, {"fr": 1}], "spam")
    fresh = model.clone()
    assert (type(fresh), fresh.labels, fresh.rate) == (TwoViews, [], 0.1)
    assert model.clone({"rate": 0.5}).rate == 0.5
    assert model.clone(include_attributes=True).labels == ["spam"]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_loaded_classifier_is_what_was_saved_and_its_clone_is_fresh(name, tmp_path):
    classifier = train(CLASSIFIERS[name].clone())
    classifier.save(tmp_path / "model")
    loaded = type(classifier).load(tmp_path / "model")
    assert type(loaded) is type(classifier)
    assert loaded._get_params().keys() == classifier._get_params().keys()
    assert loaded.predict_proba_one("free") == classifier.predict_proba_one("free")
    assert loaded.clone().labels == []
    loaded.learn_one("one more", "spam")
    if name != "any of views" and name != "any":
        loaded.alpha = 0.5
        assert {model.alpha for model in loaded.models} == {0.5}


@every
def test_copies_and_pickles_know_what_was_learned(name):
    model = train(ALL[name].clone())
    probe = "free" if isinstance(model, Classifier) else {"free": 1}
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.predict_proba_one(probe) == model.predict_proba_one(probe)
        train(other)


@every
def test_many_is_one_after_the_other(name):
    single, many = train(ALL[name].clone()), ALL[name].clone()
    if isinstance(single, Classifier):
        many.learn_many([text for text, _ in TEXTS], [label for _, label in TEXTS])
    else:
        many.learn_many([message(text) for text, _ in TEXTS], [label for _, label in TEXTS])
    probe = "free" if isinstance(single, Classifier) else {"free": 1}
    assert many.predict_proba_one(probe) == single.predict_proba_one(probe)


@every
def test_a_receipt_unlearns_its_message(name):
    model = train(ALL[name].clone())
    probe = "free" if isinstance(model, Classifier) else {"free": 1}
    before = model.predict_proba_one(probe)
    x = "something else" if isinstance(model, Classifier) else {"something": 1, "else": 2}
    for y in ("ham", "spam"):
        model.learn_one(x, y)
        model.unlearn_one(x, y, receipt=model.receipt)
        if not name.startswith("window over"):  # its recalibration keeps all messages
            assert model.predict_proba_one(probe) == before


@every
def test_misspelt_attributes_are_refused(name):
    model = ALL[name].clone()
    with pytest.raises(AttributeError, match="has no attribute 'alhpa'"):
        model.alhpa = 3


@pytest.mark.parametrize("name", {**SINGLE, **MODELS})
def test_a_text_is_not_a_message_of_a_model(name):
    model = ALL[name].clone()
    with pytest.raises((TypeError, ValueError), match=r"not str; use a Tokenizer for text|4 views"):
        model.learn_one("text", "spam")


def test_threads_share_a_model():
    """Four threads teach 20 new classes at once: nothing is lost, nothing counted twice."""
    for new_model in (MultinomialNB, lambda: ViewsNB([DiscriminativeMultinomialNB()]), GaussianNB):
        for _ in range(5):
            model = new_model()

            def teach(thread, model=model):
                for n in range(100):
                    model.learn_one({f"w{n % 7}": 1}, f"class {n % 20}")
                    model.predict_proba_one({"w1": 1})

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(teach, range(4)))
            assert sorted(model.labels) == sorted({f"class {n}" for n in range(20)})
            weights = (
                list(model.class_weights.values())
                if isinstance(model, GaussianNB)
                else model.view_models[0].counts.weights
            )
            assert weights == [20.0] * 20


def test_changes_through_a_view_model_wait_for_its_readers():
    """A thread that reads the counts of a view model waits until `ViewsNB` has changed them."""
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    x, member = ({"a": 1}, {"b": 1}), model.view_models[1]
    receipt = model.learn(x, "x")
    for change in (model.unlearn, model.reapply, lambda x, y, receipt: model.learn(x, y)):
        version = member.counts.version
        thread = threading.Thread(target=change, args=(x, "x", receipt))
        with member.lock:
            thread.start()
            thread.join(0.1)
            assert member.counts.version == version
        thread.join()
        assert member.counts.version > version


@pytest.mark.parametrize("call", ["predict_one", "joint_log_likelihood", "explain_one"])
@pytest.mark.parametrize(
    "view_model",
    [BernoulliNB(), ComplementNB(), DiscriminativeMultinomialNB(), ContextNB()],
    ids=lambda model: type(model).__name__,
)
def test_scores_of_a_view_model_do_not_depend_on_a_read_in_another_thread(view_model, call):
    """A read through `ViewsNB`, stopped within its formula, changes nothing that others read."""
    model = ViewsNB([view_model.clone(), view_model.clone()], systems=4, bound=6.0)
    for i in range(40):
        model.learn_one({f"w{j}": 1 for j in range(i % 7, i % 7 + 20)}, "ab"[i % 2])
    member, x = model.view_models[0], {f"w{j}": 1 for j in range(15)}
    expected = {name: getattr(member, name)(x) for name in ("joint_log_likelihood", "explain_one")}
    get_counts, stopped, resume = member.counts.get_counts, threading.Event(), threading.Event()

    def get_counts_slowly(fingerprints):
        if threading.current_thread() is reader:
            stopped.set()
            assert resume.wait(60)
        return get_counts(fingerprints)

    def read():
        getattr(model, call)({**x, "another word": 1})
        stopped.set()  # some formulas do not come by

    member.counts.get_counts = get_counts_slowly
    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert stopped.wait(60)
        for name, value in expected.items():
            assert getattr(member, name)(x) == value
    finally:
        resume.set()
        reader.join()


def test_threads_share_a_tokenizer_and_a_classifier():
    mail = [b"Subject: %d\n\n" % n + b"word%d " % n * 50 for n in range(40)]
    tokenizer = MailTokenizer()
    alone = [tokenizer.count(message) for message in mail]
    classifier = MailClassifier()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.count, mail)) == alone
        list(pool.map(lambda n: classifier.learn_one(mail[n], "ab"[n % 2]), range(40)))
        verdicts = list(pool.map(classifier.classify, mail))
    assert sum(classifier.models[0].counts.weights) == 40
    assert all(verdict.reasons for verdict in verdicts)


def test_figures_can_be_computed_while_classes_arrive():
    classifier, done = TextClassifier(), threading.Event()
    classifier.learn_one("a first text", "class 0")

    def show():
        while not done.is_set():
            assert classifier.messages()["class 0"] == 1
            assert len(classifier.top_features("class 0", 5)) == 5

    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(show) for _ in range(2)]
        try:
            for n in range(1, 300):
                classifier.learn_one(f"word{n} and word{n % 7}", f"class {n % 40 + 1}")
        finally:
            done.set()
        for result in results:
            result.result()


@pytest.mark.parametrize("model", [MultinomialNB(), DiscriminativeMultinomialNB()])
def test_fit_leaves_no_receipt_of_what_it_forgot(model):
    model.learn_one({"a": 1}, "x")
    model.fit(np.eye(2), ["x", "y"])
    if isinstance(model, DiscriminativeMultinomialNB):  # it learns row by row
        assert sum(model.receipt.view_weights) <= 1
    else:
        assert model.receipt is None


def test_options_of_a_tokenizer_can_change_after_its_first_use():
    mail = b"Subject: hi\nX-Foo: secret\n\nhello"
    tokenizer = MailTokenizer()
    assert "x-foo:secret" in tokenizer.transform_one(mail)
    tokenizer.drop_headers = ("X-Foo",)
    assert "x-foo:secret" not in tokenizer.transform_one(mail)
    tokenizer.headers, tokenizer.drop_headers = False, None
    assert set(tokenizer.transform_one(mail)) == {"subject:hi", "type:text/plain", "hello"}


@pytest.mark.parametrize(
    "options",
    [{"drop_headers": "X-Foo"}, {"max_length": 0}, {"inner": 3}, {"binary": "yes"}, {"ngrams": 2}],
)
def test_options_of_the_wrong_type_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        MailTokenizer(**options)
    with pytest.raises(ValueError, match="stop_words"):
        Tokenizer(stop_words="the")


def many_classes(classes, n, noise=0.0, late=(), seed=5):
    """Messages of many classes, six words each; the late ones come after two thirds."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        present = [k for k in range(classes) if k not in late or number > 2 * n / 3]
        y = int(rng.choice(present))
        words = np.concatenate((rng.integers(0, 40, 3) + 40 * y, rng.integers(0, 5000, 5)))
        label = int(rng.choice(present)) if rng.random() < noise else y
        yield TokenCounts.from_dict({int(word): 1 for word in words}), y, label


def accuracy(model, stream):
    right = []
    for x, y, label in stream:
        right.append(model.predict_one(x) == y)
        model.learn_one(x, label)
    return np.mean(right[len(right) // 2 :])


@pytest.mark.parametrize(
    ("classes", "late"), [(2, ()), (20, ()), (60, ()), (2, (1,)), (20, (7, 8))]
)
def test_label_noise_does_no_harm_with_correct_labels(classes, late):
    n = 60 * classes + 600
    believing = accuracy(ViewsNB(label_noise=0.0), many_classes(classes, n, late=late))
    doubting = accuracy(ViewsNB(), many_classes(classes, n, late=late))
    assert doubting > believing - 0.015


def taught_in(order, classes, n):
    """Accuracy on the messages after the first n, which are learned in some order."""
    stream = list(many_classes(classes, n + 300))
    model = ViewsNB()
    for x, _, label in order(stream[:n]):
        model.learn_one(x, label)
    return np.mean([model.predict_one(x) == y for x, y, _ in stream[n:]])


def by_class(stream):
    return sorted(stream, key=lambda message: message[2])


def backwards(stream):
    return sorted(stream, key=lambda message: -message[2])


def in_blocks(stream):
    return [
        x for start in range(0, len(stream), 200) for x in by_class(stream[start : start + 200])
    ]


@pytest.mark.parametrize("order", [by_class, backwards, in_blocks])
@pytest.mark.parametrize("classes", [2, 10, 30])
def test_learning_one_class_after_the_other(classes, order):
    n = 40 * classes + 300
    mixed = 1 - taught_in(iter, classes, n)
    assert 1 - taught_in(order, classes, n) < 1.3 * mixed + 0.03


def shares_words(seed, n):
    """Texts of a small class with words of its own, and of two large classes that share most."""
    draw = random.Random(seed)

    def words(prefix, count, vocabulary):
        return [f"{prefix}{int(vocabulary * draw.random() ** 2)}" for _ in range(count)]

    for _ in range(n):
        label = draw.choices(["small", "large", "largest"], [1, 6, 10])[0]
        own = words(label, 20, 80) if label == "small" else words(label, 3, 300)
        shared = [] if label == "small" else words("common", 17, 300)
        yield " ".join(own + shared), label


@pytest.mark.parametrize("order", [("small", "largest", "large"), ("largest", "small", "large")])
def test_a_run_of_an_easy_class_is_still_known_after_a_run_of_a_similar_one(order):
    stream = list(shares_words(1, 320))
    classifier = TextClassifier()
    for text, label in sorted(stream[:120], key=lambda message: order.index(message[1])):
        classifier.learn_one(text, label)
    assert np.mean([classifier.predict_one(text) == label for text, label in stream[120:]]) > 0.7


@pytest.mark.parametrize(("spam", "ham"), [(1, 1), (1, 500), (500, 1), (5, 5), (5, 500)])
def test_no_mail_is_sure_to_be_spam_while_little_is_known(spam, ham):
    classifier = TextClassifier()
    for number in range(max(spam, ham)):
        for label, most in (("spam", spam), ("ham", ham)):
            if number < most:
                classifier.learn_one(f"{label} some words {number}", label)
    assert classifier.classify("a spam letter of another kind with some words").unsure


def test_bad_labels_are_still_seen_through():
    believing = accuracy(ViewsNB(label_noise=0.0), many_classes(2, 1200, 0.4))
    doubting = accuracy(ViewsNB(), many_classes(2, 1200, 0.4))
    assert doubting > believing + 0.01


@pytest.mark.parametrize("name", MODELS | CLASSIFIERS | SINGLE)
def test_a_clone_with_its_attributes_knows_what_was_learned(name):
    trained = (MODELS | CLASSIFIERS | SINGLE)[name].clone()
    message = b"free offer" if name in CLASSIFIERS else {"free": 1}
    trained.learn_one(message, "spam")
    same = trained.clone(include_attributes=True)
    assert same.labels == ["spam"]
    same.learn_one(message, "ham")
    assert trained.labels == ["spam"]


@pytest.mark.parametrize(
    ("build_classifier", "named"),
    [
        (lambda: Classifier(), "tokenizer"),
        (lambda: Classifier(MultinomialNB(), Tokenizer()), "tokenizer"),
        (lambda: Classifier(Tokenizer(), GaussianNB()), "model"),
        (lambda: Classifier(Tokenizer(), MultinomialNB(), positive=(1, 2)), "positive"),
        (lambda: Classifier(Tokenizer(), MultinomialNB(), costs=("a", 1, 2)), "costs"),
        (lambda: WindowNB(), "model"),
        (lambda: ViewsNB([GaussianNB()]), "models"),
        (lambda: ViewsNB([SINGLE["MultinomialNB"]] * 2), "models"),
        (lambda: MailClassifier(words="x"), "words"),
        (lambda: TextClassifier(views={"words"}), "views"),
    ],
)
def test_parts_of_the_wrong_type_are_refused_by_name(build_classifier, named):
    with pytest.raises(ValueError, match=f"^{named}: "):
        build_classifier()


def test_the_parts_of_a_trained_classifier_cannot_change():
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.model = BernoulliNB()
    classifier.learn_one("free", "spam")
    for name, part in (("tokenizer", Tokenizer()), ("model", MultinomialNB())):
        with pytest.raises(ValueError, match="cannot change after the first message"):
            setattr(classifier, name, part)
    classifier.costs = (9, 1, 0.1)
    assert classifier.costs.false_alarm == 9


@pytest.mark.parametrize("positive", ["x", 1, 1.5, True, np.int64(3)])
@pytest.mark.parametrize("model", [MultinomialNB(), ViewsNB()])
def test_one_tokenizer_feeds_one_view_and_is_kept(model, positive, tmp_path):
    classifier = Classifier(Tokenizer(), model.clone(), positive=positive)
    classifier.learn_many(["free offer", "lunch"], ["x", "y"])
    verdict = classifier.classify("free lunch")
    assert {reason.feature for reason in verdict.reasons} == {"free", "lunch"}
    classifier.save(tmp_path / "m")
    loaded = Classifier.load(tmp_path / "m")
    assert loaded.classify("free lunch") == verdict
    assert loaded.positive == positive


def test_a_classifier_learns_all_messages_or_none():
    for labels, error in ((["a", None], ValueError), (["a", "b"], TypeError)):
        classifier = TextClassifier()
        with pytest.raises(error):
            classifier.learn_many(["good", "good" if labels[1] is None else 3], labels)
        assert classifier.labels == []


def test_a_ready_classifier_whose_parts_were_changed_is_loaded(tmp_path):
    classifier = TextClassifier()
    classifier.learn_many(["free offer", "lunch"], ["x", "y"])
    classifier.models[0].alpha = 0.7
    classifier.rate = 0.1
    classifier.save(tmp_path / "m")
    loaded = TextClassifier.load(tmp_path / "m")
    assert loaded.models[0].alpha == 0.7
    assert loaded.rate == 0.1
    assert loaded.predict_proba_one("free") == classifier.predict_proba_one("free")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_views_refuse_rows_that_are_not_counts(value):
    model = ViewsNB()
    with pytest.raises(ValueError, match="row 1"):
        model.learn_many(np.array([[1.0, 0.0], [value, 1.0]]), ["a", "b"])
    assert model.features == 0


def test_messages_learned_with_decay_are_unlearned_without_it():
    model = MultinomialNB(decay=0.5)
    receipts = [model.learn({"a": 1.0}, y) for y in "xyxyxy"]
    model.decay = 1.0
    for y, receipt in zip("yxyxyx", reversed(receipts), strict=True):
        model.unlearn({"a": 1.0}, y, receipt)
    assert model.feature_counts("a") == {"x": 0.0, "y": 0.0}


def test_a_window_unlearns_any_weight():
    model = WindowNB(MultinomialNB(), size=2)
    for i in range(50):
        model.learn_one({"a": 1}, "xy"[i % 2], 0.1)
    model.learn_one({"b": 1}, "x", 0.1)
    model.learn_one({"b": 1}, "y", 0.1)
    assert model.model.feature_counts("a") == {"x": 0.0, "y": 0.0}


def test_an_estimator_whose_fit_failed_is_what_it_was():
    estimator = MultinomialEstimator().fit(["free offer", "lunch"], ["x", "y"])
    with pytest.raises(ValueError, match="labels"):
        estimator.fit(np.ones((3, 2)), ["x", "y"])
    assert list(estimator.predict(["free"])) == ["x"]


BAD_MESSAGES = [
    ([{"free": 1}, {"free": float("nan")}], ["spam", "ham"], ValueError),
    ([{"free": 1}, {"free": 1}], ["spam", None], ValueError),
    ([{"free": 1}, {"free": 1}], ["spam", []], TypeError),
    ([{"free": 1}, {"free": 1}], ["spam"], ValueError),
    ([{"free": 1}, 3], ["spam", "ham"], TypeError),
]


@pytest.mark.parametrize(("X", "y", "error"), BAD_MESSAGES)
@pytest.mark.parametrize("name", MODELS | SINGLE)
def test_many_messages_are_learned_all_or_none(name, X, y, error):
    model = (MODELS | SINGLE)[name].clone()
    with pytest.raises(error):
        model.learn_many(X, y)
    assert model.labels == []


def in_sorted_order(by_label):
    return [by_label[label] for label in sorted(by_label)]


@pytest.mark.parametrize("name", MODELS | SINGLE)
def test_many_messages_are_predicted_as_one_by_one(name):
    model = train((MODELS | SINGLE)[name].clone())
    messages = [{"free": 1}, {"lunch": 2, "now": 1}]
    expected = [in_sorted_order(model.predict_proba_one(x)) for x in messages]
    np.testing.assert_allclose(model.predict_proba_many(messages), expected, rtol=1e-12)
    assert model.predict_many(messages).tolist() == [model.predict_one(x) for x in messages]
    joint = [in_sorted_order(model.joint_log_likelihood(x)) for x in messages]
    np.testing.assert_allclose(model.joint_log_likelihood_many(messages), joint, rtol=1e-12)
    for way in (tuple, iter):
        assert model.predict_many(way(messages)).tolist() == model.predict_many(messages).tolist()
        copy = (MODELS | SINGLE)[name].clone()
        copy.learn_many(way(messages), ["spam", "ham"])
        assert copy.labels == ["spam", "ham"]
    untrained = (MODELS | SINGLE)[name].clone()
    assert untrained.predict_proba_many(iter(messages)).shape == (2, 0)
    assert untrained.predict_many(messages).tolist() == []
    assert untrained.predict_proba_many(messages).shape == (2, 0)


@pytest.mark.parametrize("name", MODELS | SINGLE)
def test_a_frame_is_predicted_like_its_rows(name):
    model = train((MODELS | SINGLE)[name].clone())
    frame = pd.DataFrame({"free": [1, 0], "lunch": [0, 2], "now": [0, 1]}, index=[7, 9])
    rows = [{"free": 1}, {"lunch": 2, "now": 1}]
    frame_probabilities = model.predict_proba_many(frame)
    assert list(frame_probabilities.columns) == sorted(model.labels)
    assert list(frame_probabilities.index) == list(model.predict_many(frame).index) == [7, 9]
    np.testing.assert_allclose(frame_probabilities, model.predict_proba_many(rows), rtol=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_predicts_many_messages_as_one_by_one(name):
    classifier = CLASSIFIERS[name].clone()
    classifier.learn_many(["free offer", "lunch now", "free"], ["spam", "ham", "spam"])
    texts = ["free lunch", "an offer"]
    expected = [in_sorted_order(classifier.predict_proba_one(x)) for x in texts]
    np.testing.assert_allclose(classifier.predict_proba_many(texts), expected, rtol=1e-12)
    assert classifier.predict_many(texts).tolist() == [classifier.predict_one(x) for x in texts]
    assert classifier.joint_log_likelihood_many(iter(texts)).shape == (2, 2)
    with pytest.raises(TypeError, match="single message"):
        classifier.predict_many("free lunch")
    column = pd.Series(texts, index=[7, 9])
    assert classifier.predict_many(column).index.tolist() == [7, 9]
    spam_probabilities = classifier.predict_proba_many(column)["spam"]
    np.testing.assert_allclose(spam_probabilities, [x[1] for x in expected], rtol=1e-12)


def test_a_classifier_answers_for_a_column_of_a_frame_in_its_rows():
    classifier = TextClassifier(on="text")
    frame = pd.DataFrame({"text": ["free offer", "lunch now"], "n": [1, 2]}, index=[7, 9])
    classifier.learn_many(frame, ["spam", "ham"])
    assert classifier.predict_many(frame).to_dict() == {7: "spam", 9: "ham"}
    assert list(classifier.predict_proba_many(frame).columns) == ["ham", "spam"]


@pytest.mark.parametrize("labels", [["a", "b"], [1, 2], [0.5, 1.5], [True, False]])
def test_numpy_labels_in_a_list_are_those_of_their_array(labels):
    classifier = TextClassifier()
    classifier.learn_many(["free offer", "lunch now"], list(np.array(labels)))
    assert [type(label) for label in classifier.labels] == [type(label) for label in labels]
    assert classifier.predict_many(["offer", "lunch"]).dtype == np.array(labels).dtype


@pytest.mark.parametrize("name", MODELS | SINGLE)
def test_a_value_that_is_not_a_model_is_not_merged(name):
    with pytest.raises(ValueError, match="cannot merge a dict"):
        (MODELS | SINGLE)[name].clone().merge({})


def test_classes_declared_before_names_are_dropped_stay():
    model = MultinomialNB()
    model.counts.add_classes(["ham", "spam"])
    model.keep_names = False
    assert model.labels == ["ham", "spam"]
    model.learn_one({"free": 1}, "spam")
    assert model.counts.name(int(TokenCounts.from_dict({"free": 1}).fingerprints[0])) != "free"


def test_a_row_with_negative_numbers_is_learned_by_presence_under_decay():
    model = BernoulliNB(decay=0.9)
    model.partial_fit(np.array([[1, -1], [0, 2]]), ["a", "b"], classes=["a", "b"])
    assert model.labels == ["a", "b"]


def test_fit_learns_in_an_order_of_its_own():
    texts = [(f"free offer {n}", "spam") for n in range(60)]
    texts += [(f"lunch at noon {n}", "ham") for n in range(60)]
    X, y = [text for text, _ in texts], [label for _, label in texts]
    classifier, other = TextClassifier(), TextClassifier()
    other.learn_one("something else", "work")
    classifier.fit(X, y)
    other.fit(X, y, seed=1)
    assert classifier.labels == other.labels
    assert classifier.predict_proba_one("free lunch") == other.predict_proba_one("free lunch")
    assert classifier.predict_proba_one("free lunch") != classifier.fit(
        X, y, seed=2
    ).predict_proba_one("free lunch")
    with pytest.raises(ValueError, match="3 examples, but 1 labels"):
        classifier.fit(["a", "b", "c"], ["spam"])
    assert sorted(classifier.labels) == ["ham", "spam"]


@pytest.mark.parametrize("views", [("pairs", "header"), ("pairs", "bytes"), ("bytes",), ("words",)])
def test_a_classifier_of_any_views_is_loaded(views, tmp_path):
    mail = b"Subject: free offer\n\nbuy now"
    classifier = MailClassifier(views=views)
    classifier.learn_one(mail, "spam")
    classifier.learn_one(b"Subject: lunch\n\nat noon", "ham")
    classifier.save(tmp_path / "model")
    loaded = MailClassifier.load(tmp_path / "model")
    assert loaded.views == views
    assert loaded.predict_proba_one(mail) == classifier.predict_proba_one(mail)
    clone = loaded.clone()
    assert clone.labels == []
    assert clone.count(mail) == classifier.count(mail)


def test_frames_are_read_by_the_column_of_messages():
    frame = pd.DataFrame({"text": ["free pills", "lunch at noon"], "other": [1, 2]})
    for teach in (TextClassifier.learn_many, TextClassifier.fit):
        classifier = TextClassifier(on="text")
        teach(classifier, frame, ["spam", "ham"])
        assert classifier.predict_one({"text": "free"}) == "spam"
        with pytest.raises((TypeError, ValueError)):
            teach(TextClassifier(), frame, ["spam", "ham"])


def test_views_of_a_tokenizer_and_a_model_belong_together():
    with pytest.raises(ValueError, match="pass Views"):
        Classifier(Tokenizer(), ViewsNB([MultinomialNB(), MultinomialNB()]))


def test_costs_of_one_question_are_checked():
    classifier = TextClassifier()
    for costs in ((10, 1, math.nan), (-1, 1, 1), (1, 2), "abc"):
        with pytest.raises(ValueError, match="costs"):
            classifier.classify("x", costs=costs)


TABLES = {"gaussian": GaussianNB(), "window over a table": WindowNB(GaussianNB(), 100)}


@pytest.mark.parametrize("name", [*MODELS, *CLASSIFIERS, *SINGLE, *TABLES])
@pytest.mark.parametrize(
    "make_copy", [copy.deepcopy, lambda model: model.clone(include_attributes=True)]
)
def test_a_copy_waits_for_a_call_of_another_thread(make_copy, name):
    model = {**MODELS, **CLASSIFIERS, **SINGLE, **TABLES}[name].clone()
    is_text = name in CLASSIFIERS
    model.learn_one("free offer" if is_text else {"free": 1}, "spam")
    copies = []
    thread = threading.Thread(target=lambda: copies.append(make_copy(model)))
    with model.model.lock if is_text else model.lock:  # as `learn_one` holds it
        thread.start()
        thread.join(0.1)
        assert not copies
    thread.join()
    assert list(copies[0].labels) == ["spam"]


def test_attributes_of_a_window_are_described():
    for name in ("as_tokens", "labels", "state"):
        assert getattr(WindowNB, name).__doc__ == f"As `{name}` of the model in this window."


@pytest.mark.parametrize("kind", [TextClassifier, MailClassifier])
def test_a_classifier_is_put_into_a_window_by_its_model(kind):
    classifier = kind()
    with pytest.raises(ValueError, match="pass the classifier's `model`, and a Classifier with"):
        WindowNB(classifier, size=2)
    window = Classifier(classifier.tokenizer, WindowNB(classifier.model, size=2))
    for text, label in (("buy", "spam"), ("lunch", "ham"), ("noon", "ham")):
        window.learn_one(text, label)
    assert window.messages() == {"spam": 0, "ham": 2}
