"""The limit on features: what is evicted, and that learning, undoing, merging and files hold."""

import copy
import pickle
import random

import numpy as np
import pytest
from scipy import sparse

import streamnb
from streamnb import (
    BernoulliNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MailClassifier,
    MultinomialNB,
    TextClassifier,
    ViewsNB,
    WindowNB,
)
from streamnb.counts.memory import MemoryCounts
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.partial import check_shards
from streamnb.sklearn import MultinomialNB as MultinomialEstimator
from streamnb.sklearn import TextClassifier as TextEstimator

LIMIT = 40
COUNTING = (MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB)
MODELS = {
    **{
        model_class.__name__: lambda c=model_class: c(max_features=LIMIT)
        for model_class in COUNTING
    },
    "decay": lambda: MultinomialNB(max_features=LIMIT, decay=0.9),
    "views": lambda: ViewsNB(
        [DiscriminativeMultinomialNB(max_features=LIMIT), MultinomialNB(max_features=LIMIT)]
    ),
    "window": lambda: WindowNB(MultinomialNB(max_features=LIMIT), 30),
}
SAVED = [name for name in MODELS if name != "window"]
MERGED = [name for name in SAVED if name != "decay"]  # counts that aged alike only


def messages(n, seed=1):
    """Return messages of frequent and of new words, with labels of three classes."""
    rng = random.Random(seed)
    stream = []
    for i in range(n):
        words = [int(rng.paretovariate(0.6)) for _ in range(12)] + [f"new {seed} {i}"]
        message = {str(word): float(words.count(word)) for word in dict.fromkeys(words)}
        stream.append((message, rng.choice(["a", "b", "c"])))
    return stream


def teach(model, stream):
    for x, y in stream:
        model.learn_one(x, y)
    return model


def tables(model):
    return [view_model.counts.as_dict() for view_model in model.view_models]


@pytest.mark.parametrize("name", MODELS)
def test_there_are_never_more_features_and_the_totals_are_their_sums(name):
    model = MODELS[name]()
    for x, y in messages(300):
        model.learn_one(x, y)
        for view_model in model.view_models:
            counts = view_model.counts
            _, cells = counts.items()
            assert counts.features == len(cells) <= LIMIT
            assert np.allclose(cells.sum(axis=0), counts.totals)
    assert all(view_model.counts.evictions > 5 for view_model in model.view_models)
    assert sum(model.predict_proba_one({"1": 1, "2": 1}).values()) == pytest.approx(1)


@pytest.mark.parametrize("classes", [2, 9])
def test_the_rarest_are_evicted(classes):
    counts = MemoryCounts()
    rng = random.Random(classes)
    totals = dict.fromkeys(map(str, range(200)), 0.0)
    for word in totals:
        for _ in range(rng.randrange(1, 5)):
            amount = float(rng.randrange(1, 4))
            counts.add(TokenCounts.from_dict({word: amount}), rng.randrange(classes), 1.0)
            totals[word] += amount
    counts.evict(100)
    remaining = {counts.name(int(fingerprint)) for fingerprint in counts.items()[0]}
    assert len(remaining) == 75
    assert min(totals[word] for word in remaining) >= max(
        totals[word] for word in totals.keys() - remaining
    )
    assert sum(counts.totals) == sum(totals[word] for word in remaining)


def test_recurring_features_outlast_rare_ones_in_evictions():
    model = MultinomialNB(max_features=100)
    for i in range(3000):
        model.learn_one({f"new {i}": 1, f"old {i % 20}": 1}, "a")
    remaining = {model.display_name(int(key)) for key in model.counts.items()[0]}
    assert {f"old {i}" for i in range(20)} <= remaining
    assert not {f"new {i}" for i in range(2000)} & remaining


@pytest.mark.parametrize("name", SAVED)
def test_a_copy_learns_and_predicts_like_the_model(name, tmp_path):
    first, later = messages(100), messages(150, seed=2)
    model = teach(MODELS[name](), first)
    model.save(tmp_path / "model.snb")
    copies = [
        streamnb.load(tmp_path / "model.snb"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        teach(MODELS[name](), first),
    ]
    expected = tables(teach(model, later))
    for other in copies:
        assert tables(teach(other, later)) == expected
        assert other.predict_proba_one({"1": 1}) == model.predict_proba_one({"1": 1})


@pytest.mark.parametrize("model_class", COUNTING)
def test_many_rows_are_learned_as_one_after_the_other(model_class):
    rng = np.random.default_rng(1)
    X = sparse.csr_matrix((rng.random((200, 500)) < 0.02).astype(float))
    y = ["ab"[i % 2] for i in range(200)]
    many, single = (model_class(max_features=LIMIT) for _ in range(2))
    many.learn_many(X, y)
    for row, label in zip(X, y, strict=True):
        single.learn_one({int(i): 1.0 for i in row.indices}, label)
    assert tables(many) == tables(single)
    assert many.counts.evictions == single.counts.evictions > 0


@pytest.mark.parametrize("name", ["MultinomialNB", "DiscriminativeMultinomialNB", "decay", "views"])
def test_all_messages_can_be_unlearned(name):
    model, stream = MODELS[name](), messages(150)
    receipts = []
    for x, y in stream:
        model.learn_one(x, y)
        receipts.append(model.receipt)
    for (x, y), receipt in zip(stream, receipts, strict=True):
        model.unlearn_one(x, y, receipt=receipt)
    for view_model in model.view_models:
        assert np.allclose(view_model.counts.weights, 0, atol=1e-6)
        # A count can remain after an eviction and unlearning, but none is below zero.
        assert (view_model.counts.items()[1] >= 0).all()


def test_more_messages_than_were_learned_cannot_be_unlearned():
    model = teach(MultinomialNB(max_features=LIMIT), messages(50))
    before = tables(model)
    with pytest.raises(ValueError, match="cannot unlearn weight 60 of class 'a'"):
        model.unlearn_one({"1": 1}, "a", 60.0)
    assert tables(model) == before


@pytest.mark.parametrize("name", MERGED)
def test_a_merged_model_has_the_limit_and_is_the_same_whichever_was_read_from_a_file(
    name, tmp_path
):
    model, other = (teach(MODELS[name](), messages(60, seed)) for seed in (1, 2))
    other.save(tmp_path / "other.snb")
    second = copy.deepcopy(model)
    model.merge(other)
    second.merge(streamnb.load(tmp_path / "other.snb"))
    assert tables(model) == tables(second)
    assert all(view_model.counts.features <= LIMIT for view_model in model.view_models)


@pytest.mark.parametrize("make", [MultinomialNB, TextClassifier, MailClassifier])
def test_a_new_limit_applies_at_once(make):
    model = make()
    for i in range(50):
        x = f"free offer number {i} of today" if make is not MultinomialNB else {str(i): 1, "x": 1}
        model.learn_one(x, "ab"[i % 2])
    model.max_features = 20
    models = [model] if make is MultinomialNB else model.models
    assert all(view_model.counts.features <= 20 for view_model in models)
    with pytest.raises(ValueError, match="max_features: 0 is not a whole number from 1"):
        model.max_features = 0


def test_a_table_on_an_endless_stream_does_not_grow():
    model = MultinomialNB(max_features=1000)
    sizes = []
    for i in range(20_000):
        model.learn_one({f"word {i}": 1, f"{i} word": 1}, "ab"[i % 2])
        sizes.append(model.counts.table.__sizeof__())
    assert max(sizes[5_000:]) <= 1.5 * max(sizes[:5_000])


def test_estimators_and_classifiers_take_the_limit():
    texts = [f"free offer {i}" if i % 2 else f"lunch at noon {i}" for i in range(200)]
    y = ["spam" if i % 2 else "ham" for i in range(200)]
    for estimator in (MultinomialEstimator(max_features=50), TextEstimator(max_features=50)):
        estimator.fit(texts, y)
        assert estimator.score(texts, y) == 1
        models = getattr(estimator.model_, "models", [estimator.model_])
        assert all(model.counts.features <= 50 for model in models)


def test_max_features_is_refused_if_every_feature_is_needed(tmp_path):
    with pytest.raises(ValueError, match="ngram_step=0"):
        MailClassifier(ngram_max=6, ngram_step=2, max_features=10)
    with pytest.raises(ValueError, match="shards need all counts"):
        check_shards(MailClassifier(max_features=10))
    with pytest.raises(StateError, match="compact the database"):
        streamnb.Mailbox(tmp_path / "mail.db", classifier=MailClassifier(max_features=10))


@pytest.mark.parametrize("seed", range(3))
def test_a_model_whose_class_lost_all_its_features_is_read_again(seed, tmp_path):
    """Totals are those of the counts that are left, without rounding errors."""
    draw = random.Random(seed).random
    model = streamnb.MultinomialNB(max_features=200, decay=0.99)
    for _ in range(2000):
        model.learn_one({"x": 1}, "a")
    for _ in range(30):
        model.learn_one({f"b{draw()}": 1 for _ in range(8)}, "b")
    for i in range(4):
        model.learn_one({f"a{i}{k}": 30 for k in range(190)}, "a")
    model.save(tmp_path / "model.snb")
    assert streamnb.MultinomialNB.load(tmp_path / "model.snb").counts.totals == model.counts.totals


def test_a_refused_limit_changes_no_view():
    classifier = streamnb.TextClassifier(ngram_step=2, ngram_max=4)
    classifier.fit(["free pills offer", "lunch at noon"], ["spam", "ham"])
    before = [model.counts.features for model in classifier.models]
    with pytest.raises(ValueError, match="max_features"):
        classifier.max_features = 5
    assert [model.counts.features for model in classifier.models] == before
    assert {model.max_features for model in classifier.models} == {None}


def test_a_refused_unlearning_keeps_the_names():
    model = streamnb.ViewsNB(
        [
            streamnb.DiscriminativeMultinomialNB(max_features=4),
            streamnb.DiscriminativeMultinomialNB(),
        ]
    )
    for i in range(6):
        model.learn_one([{f"w{i}": 1}, {f"v{i}": 1}], "spam" if i % 2 else "ham")
    model.learn_one([{"keep": 9}, {"k2": 1}], "spam")
    with pytest.raises(ValueError, match=r"unlearn|learned"):
        model.unlearn_one([{"keep": 9}, {"absent": 1}], "spam", receipt=model.receipt)
    assert "keep" in str(model.explain_one([{"keep": 1}, {"k2": 1}]))
