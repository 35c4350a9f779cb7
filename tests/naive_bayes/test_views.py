"""Discriminative models, and several views, against slow references that follow the formulas."""

import copy
import itertools
import math
import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import entropy
from streams import labels, messages, streams

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
from streamnb.naive_bayes.text_model import TextModel
from streamnb.scores import best_columns, best_index, best_label


class SlowDiscriminative:
    """Su, Zhang, Ling and Matwin (2008), with dicts and numpy, exactly as in the paper."""

    def __init__(self, alpha, length_norm, power, prior_share=1.0, complement=False):
        self.alpha, self.length_norm, self.power, self.prior_share = (
            alpha,
            length_norm,
            power,
            prior_share,
        )
        self.complement = complement
        self.counts = defaultdict(lambda: defaultdict(float))
        self.messages = {}

    def log_likelihoods(self, x, factor=1.0):
        classes, alpha = list(self.messages), self.alpha * factor
        known_words = {w: n for w, n in x.items() if any(self.counts[w].values())}
        vocabulary = sum(any(by_class.values()) for by_class in self.counts.values())
        totals = [sum(by_class[c] for by_class in self.counts.values()) for c in classes]
        sums, sign, power = np.zeros(len(classes)), 1, self.power
        counts = {w: np.array([self.counts[w][c] for c in classes]) for w in known_words}
        if self.complement and len(classes) > 2:
            weights = np.array(list(self.messages.values()))
            effective = math.exp(entropy(weights))
            power += min(max(effective - 2, 0), 1) * (1 / 2 - power)
            counts = {w: numbers.sum() - numbers for w, numbers in counts.items()}
            totals, sign = sum(totals) - np.array(totals), -1
        for w, n in known_words.items():
            for k in range(len(classes)):
                share = (counts[w][k] + alpha) / (totals[k] + alpha * vocabulary)
                sums[k] += sign * n * math.log(share)
        return sums / (self.length_norm * len(known_words) ** power) if known_words else sums

    def residual(self, x, y, log_likelihoods=None):
        if not self.messages.get(y):
            return 1.0
        if len(self.messages) > 1:
            prior = np.log(np.array(list(self.messages.values())) / sum(self.messages.values()))
            values = self.log_likelihoods(x) if log_likelihoods is None else log_likelihoods
            scores = values + self.prior_share * prior
            return 1 - softmax(scores)[list(self.messages).index(y)]
        return 0.5

    def learn(self, x, y, log_likelihoods=None, trust=1.0, weight=1.0, in_run=False, least=0.0):
        residual = self.residual(x, y, log_likelihoods)
        if len(self.messages) > 1:
            if in_run:
                residual += 0.3 * (1 - residual) / (1 + self.messages.get(y, 0) / 20)
            residual = max(residual, min(least, 1))
        update = trust**2 * residual
        update = round(update * 1024) / 1024
        for w, n in x.items():
            self.counts[w][y] += weight * update * n
        self.messages[y] = self.messages.get(y, 0) + weight
        return update


@given(streams, st.sampled_from([0.1, 1.0]), st.sampled_from([0.5, 2 / 3, 1.0]))
def test_discriminative_learning_is_that_of_the_paper(stream, alpha, power):
    model = DiscriminativeMultinomialNB(alpha=alpha, length_norm=0.8, length_norm_power=power)
    slow = SlowDiscriminative(alpha, 0.8, power)
    for x, y in stream:
        if slow.messages:
            np.testing.assert_allclose(
                model.log_likelihoods(x), slow.log_likelihoods(x), rtol=1e-9, atol=1e-9
            )
        expected = slow.residual(x, y)
        model.learn_one(x, y)
        assert model.receipt.view_weights[0] == pytest.approx(expected, abs=0.5 / 1024 + 1e-9)
        slow.counts = defaultdict(lambda: defaultdict(float), slow.counts)
        update = model.receipt.view_weights[0]  # rounding may decide a tie in two ways
        for w, n in x.items():
            slow.counts[w][y] += update * n
        slow.messages[y] = slow.messages.get(y, 0) + 1


def test_decay_does_not_change_the_stored_counts():
    counts = trained_views().models[0].counts
    before = counts.table.arrays()[1].tobytes()
    assert before
    counts.decay(0.999)
    assert counts.table.arrays()[1].tobytes() == before


def absence_of(k, y, labels):
    """Return the number of labels after the last one of class k, if it came after one of y."""
    if k not in labels or y not in labels:
        return math.inf
    last = len(labels) - 1 - labels[::-1].index(k)
    return len(labels) - 1 - last if last > labels.index(y) else math.inf


def is_present(k, y, labels):
    """Return whether class k, not the class y of the next message, is present after some labels."""
    horizon = max(math.log(max(len(labels), 1)), 1)
    return absence_of(k, y, labels) < horizon * max(len(labels) / max(labels.count(k), 1) - 1, 1)


def slow_views(stream, bound=None, by_length=False, systems=1, rate=0.3, complement=False):
    """Scores of a `ViewsNB` of two views before each message is learned, from the formulas."""
    views = [SlowDiscriminative(0.1, 0.8, 2 / 3, 0.5, complement) for _ in range(2)]
    factors = {1: [1.0], 2: [1.0, 10.0]}[systems]
    # The calibration of each system: for all messages, and for those of each length.
    slopes = defaultdict(lambda: np.zeros(2), {(s, "all"): np.full(2, 0.5) for s in range(systems)})
    slope_squares = defaultdict(lambda: np.ones(2))
    intercepts, intercept_squares = defaultdict(float), defaultdict(lambda: 1.0)
    pool = np.full(systems, 1 / systems)
    evidence = np.array([1 / 2, 1 / 2])  # of label noise, and of overlapping classes
    noise, n_labels = defaultdict(lambda: 0.1), defaultdict(lambda: 10.0)
    labels, in_runs = [], defaultdict(int)
    mistakes, random, counted, out = 20.0, 0.0, defaultdict(lambda: np.zeros(2)), []
    for x, y, *weight in stream:
        w = weight[0] if weight else 1.0
        classes = list(views[0].messages)
        values = np.array(
            [
                [v.log_likelihoods(part, f) for v, part in zip(views, x, strict=True)]
                for f in factors
            ]
        )
        if bound is not None and len(classes) > 1:
            values = -bound * np.tanh((values.max(axis=2, keepdims=True) - values) / bound)
            values -= values.mean(axis=2, keepdims=True)
        size = sum(map(len, x))
        groups = ["all", size.bit_length()] if by_length else ["all"]
        slope = [np.maximum(sum(slopes[s, g] for g in groups), 0.02) for s in range(systems)]
        z = np.zeros((systems, len(classes)))
        for s in range(systems if len(classes) > 1 else 0):
            z[s] = slope[s] @ values[s] + [
                sum(intercepts[s, g, c] for g in groups) for c in classes
            ]
        p_systems = softmax(z, axis=1) if classes else z
        p = pool @ p_systems
        n = np.array([n_labels[c] for c in classes])
        e = np.array([noise[c] for c in classes])
        e = np.minimum((n * e + 30 * (n @ e) / max(n.sum(), 1)) / (n + 30), 0.49)
        if len(classes) > 1:
            power = max(1 - e.sum() / (len(classes) - 1), 0)
            overlapping = softmax(power * np.log(p))
            reported = np.log(evidence @ [p, overlapping])
        else:
            reported = z[0]
        out.append(dict(zip(classes, reported, strict=True)))
        present = [c for c in classes if c == y or is_present(c, y, labels)]
        in_run = len(present) < 2
        among = np.array([in_run or c in present for c in classes])
        shortest = min((absence_of(c, y, labels) for c in classes if c != y), default=math.inf)
        in_runs[y] += shortest >= max(len(labels) / 10, 1)
        labels.append(y)
        trust = 1.0
        if len(classes) > 1 and y in classes:
            truth = np.array([float(c == y) for c in classes])
            noisy = p @ np.where(truth, 1 - e, e / (len(classes) - 1))
            e = np.clip(e, 1 / n, 0.49)
            likelihood = np.where(truth, 1 - e, e / (len(classes) - 1))
            own = views[0].messages[y]
            unseen = 0.02 * (sum(views[0].messages.values()) - own) / own**2
            best = int(np.flatnonzero(np.log(p) >= np.log(p.max()) - 1e-9)[0])
            sampling = noise_weight = 1.0
            if classes[best] != y:
                sampling, noise_weight = np.clip([4 - mistakes, (20 - mistakes) / 10], 0, 1)
            if in_run:
                noise_weight *= 1 - in_runs[y] / labels.count(y)
            shares = (p + unseen * truth) / (1 + unseen)
            if classes[best] == y:
                mistakes = random = 0.0
            else:
                mistakes = min(mistakes + p[best], 20.0)
                random += 1e-3 * (1 - 2 * random)
                likelihood = random / len(classes) + (1 - random) * likelihood
                random /= len(classes) * (shares @ likelihood)

            def posterior(shares, weight=noise_weight, likelihood=likelihood, truth=truth):
                joint = likelihood * shares
                return weight * joint / joint.sum() + (1 - weight) * truth

            belief = posterior(shares)
            trust = belief @ truth
            targets = [posterior(p_system) for p_system in p_systems]
            label_p = p_systems @ likelihood
            for s in range(systems):
                shares, target = p_systems[s] * among, targets[s] * among
                shares, target = shares / shares.sum(), target / target.sum()
                error = shares - target
                if abs(error).max() < 2**-9:
                    continue
                others = np.where(np.arange(len(classes)) == best, 0.0, shares)
                others = others / others.sum() if others.any() else truth
                gradient = values[s] @ (
                    sampling * error + (1 - sampling) * trust * (others - truth)
                )
                common = (gradient @ slope[s]) / (slope[s] @ slope[s]) * slope[s]
                if in_run:
                    gradient, error = 0.1 * common, 0 * error
                for g in groups:
                    slope_squares[s, g] = slope_squares[s, g] + gradient**2
                    slopes[s, g] = slopes[s, g] - rate * gradient / np.sqrt(slope_squares[s, g])
                    for k, c in enumerate(classes):
                        square = intercept_squares[s, g, c] + error[k] ** 2
                        intercept_squares[s, g, c] = square
                        intercepts[s, g, c] -= rate * error[k] / math.sqrt(square)
                slopes[s, "all"] = np.maximum(slopes[s, "all"], 0.02)
            if sampling == 1:
                for c, b in zip(classes, belief, strict=True):
                    b = np.rint(b * 2**13) / 2**13
                    if b:
                        n_labels[c] += b
                        noise[c] += b * n_labels[c] ** -0.75 * ((c != y) - noise[c])
                if not in_run:
                    evidence = evidence * [noisy, overlapping @ truth]
                    evidence = (1 - 1e-4) * evidence / evidence.sum() + 1e-4 / 2
                if systems > 1 and not in_run:
                    pool = pool * label_p
                    pool = (1 - 1e-4) * pool / pool.sum() + 1e-4 / systems
        mixed = np.tensordot(pool, values, 1)
        missing = math.sqrt((views[0].messages.get(y, 0) + w) / 2) - counted[y]
        least = np.where(missing >= 1 / 2, missing, 0)
        parts = zip(views, x, mixed, least, strict=True)
        updates = [v.learn(part, y, row, trust, w, in_run, floor) for v, part, row, floor in parts]
        counted[y] = counted[y] + w * np.array(updates)
    return out


@given(st.lists(st.tuples(st.tuples(messages, messages), labels), max_size=15))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bound": 2.0},
        {"by_length": True, "bound": 8.0},
        {"systems": 2, "bound": 8.0},
        {"systems": 2, "bound": 8.0, "complement": True},
    ],
    ids=str,
)
def test_views_follow_the_formulas(options, stream):
    complement = options.get("complement", False)
    views = [DiscriminativeMultinomialNB(complement=complement) for _ in range(2)]
    model = ViewsNB(views, **{k: v for k, v in options.items() if k != "complement"})
    for (x, y), expected in zip(stream, slow_views(stream, **options), strict=True):
        # A lesson on the edge between two steps may be rounded the other way.
        assert model.joint_log_likelihood(x) == pytest.approx(expected, abs=0.05)
        model.learn_one(x, y)


TIES = [
    # Before the third message both classes have the same score, but for rounding.
    [
        (({}, {"f": 1, "a": 1}), "ham"),
        (({"b": 2, "a": 3}, {}), "spam"),
        (({"c": 1, "f": 3}, {"b": 3, "f": 3, "c": 2}), "ham"),
        (({"c": 1, "f": 1}, {"b": 1}), "ham"),
    ],
    [
        (({"a": 1}, {}), "ham"),
        (({"b": 1}, {}), "spam"),
        (({"a": 2, "b": 2}, {"c": 1}), "spam"),
        (({"a": 1, "b": 1}, {}), "ham"),
        (({"a": 1}, {"c": 1}), "spam"),
    ],
]


def _check_views(stream, **options):
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()], **options)
    for (x, y), expected in zip(stream, slow_views(stream, **options), strict=True):
        assert model.joint_log_likelihood(x) == pytest.approx(expected, abs=0.01)
        if expected:
            top = max(expected.values()) - 1e-9
            assert model.predict_one(x) == next(c for c, z in expected.items() if z >= top)
        model.learn_one(x, y)


@pytest.mark.parametrize("stream", TIES)
def test_rounding_does_not_decide_between_classes_of_equal_score(stream):
    _check_views(stream)
    swapped = {"ham": "spam", "spam": "ham"}
    _check_views([(x, swapped[y]) for x, y in stream])


@pytest.mark.long
def test_views_follow_the_formulas_in_many_small_streams(full):
    """Streams of few words, often repeated: many of them have ties."""
    numbers = random.Random(38)

    def view():
        return {numbers.choice("abcf"): numbers.randint(1, 3) for _ in range(numbers.randint(0, 3))}

    for _ in range(1500 if full else 300):
        kinds = ["ham", "spam", "list"][: numbers.choice((2, 2, 3))]
        seen_counts = [(view(), view()) for _ in range(3)]
        _check_views(
            [
                (
                    numbers.choice(seen_counts) if numbers.random() < 0.3 else (view(), view()),
                    numbers.choice(kinds),
                )
                for _ in range(numbers.randint(2, 6))
            ]
        )


def test_the_first_of_equal_classes_is_predicted_everywhere():
    third = 0.1 + 0.2  # .30000000000000004
    assert best_index([0.3, third]) == 0
    assert best_index([third, 0.3]) == 0
    assert best_index([-math.inf, -math.inf]) == 0
    assert best_index([-math.inf, 3e9, 3e9 + 1e-4]) == 1
    assert best_index([math.inf, math.inf, 1.0]) == 0
    assert best_index([0.0, 1e-6]) == 1
    assert best_label({}) is None
    assert best_label({"ham": 0.3, "spam": third}) == "ham"
    values = [0.3, third, -1e9, -1e9 + 1e-4, -math.inf, math.inf, math.nan]
    rows = list(itertools.product(values, repeat=3))
    assert best_columns(np.array(rows)).tolist() == [best_index(row) for row in rows]


@pytest.mark.parametrize("make", [MultinomialNB, ComplementNB, BernoulliNB])
def test_equal_scores_give_the_first_class_everywhere(make):
    """If classes tie, every method predicts the same class."""
    model = make()
    words = [f"w{i}" for i in range(7)]
    for label in ("ham", "spam"):
        model.learn_one({w: i + 1 for i, w in enumerate(words)}, label)
    for i in range(1, 8):
        x = {w: j % 3 + 1 for j, w in enumerate(words[:i])}
        assert model.predict_one(x) == "ham"
        assert model.predict_many([x, x]).tolist() == ["ham"] * 2


@pytest.mark.parametrize("rare", [0.02, 0.5])
def test_views_follow_the_formulas_with_a_rare_class_and_weights(rare):
    rng, stream = np.random.default_rng(4), []
    for i in range(400):
        y = "rare" if rng.random() < rare else "common"
        words = rng.poisson(10 if y == "rare" else 14, 6)
        weight = (1.0, 3.0, 0.25)[i % 3]
        stream.append(([{f"w{j}": 1 for j in words}] * 2, y, weight))
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()], by_length=True)
    for (x, y, w), expected in zip(stream, slow_views(stream, by_length=True), strict=True):
        assert model.joint_log_likelihood(x) == pytest.approx(expected, abs=0.05)
        model.learn_one(x, y, w=w)


@pytest.mark.parametrize(("rare", "classes"), [(0.002, 2), (0.02, 2), (0.3, 20)])
def test_probabilities_follow_the_shares_of_a_mixed_stream(rare, classes):
    """A frequent class must not look like a run of one class, in texts without evidence."""
    numbers = random.Random(7)
    model, shares, right, n_rare = TextClassifier(), [], 0, 0
    for i in range(6000):
        y = "common" if numbers.random() >= rare else f"rare{numbers.randrange(classes - 1)}"
        x = " ".join(f"c{min(int(numbers.paretovariate(0.7)), 20000)}" for _ in range(8))
        if i >= 3000:
            shares.append(1 - model.predict_proba_one(x)["common"])
            right += (model.predict_one(x) == "common") / 3000
            n_rare += y != "common"
        model.learn_one(x, y)
    assert 0.5 * n_rare < math.fsum(shares) < 1.5 * n_rare
    assert right > 0.99


def test_tiny_weights_change_little():
    numbers = random.Random(2)
    data = [
        (f"w{k}x{numbers.randrange(30)} c{numbers.randrange(50)} c{numbers.randrange(50)}", "ab"[k])
        for k in (numbers.randrange(2) for _ in range(400))
    ]
    texts, labels = zip(*data, strict=True)
    model = TextClassifier()
    model.learn_many(texts, labels)
    before, state = (
        model.predict_many(texts).tolist(),
        model.model.calibration.recalibration.state(),
    )
    model.learn_many(texts, ["a" if y == "b" else "b" for y in labels], w=1e-12)
    assert model.model.calibration.recalibration.state() == state
    assert model.predict_many(texts).tolist() == before


def test_views_have_one_decay():
    """A receipt has one number of halvings."""
    with pytest.raises(ValueError, match="the same decay"):
        ViewsNB([MultinomialNB(decay=0.9), MultinomialNB()])


def two_views(n=60, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = "spam" if rng.random() < 0.4 else "ham"
        centre = 10 if y == "spam" else 14
        yield [{f"w{i}": 1 for i in rng.poisson(centre, 6)} for _ in range(2)], y


def trained_views():
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    for x, y in two_views():
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize("bound", [None, 1.5])
def test_views_explain_themselves(bound):
    models = [DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()]
    model = ViewsNB(models, bound=bound, by_length=bound is not None)
    for x, y in two_views():
        model.learn_one(x, y)
    x, _ = next(two_views(seed=5))
    explanation = model.explain_one(x)
    assert explanation.scores == pytest.approx(model.joint_log_likelihood(x))
    for label, score in explanation.scores.items():
        parts = sum(value[label] for value in explanation.contributions.values())
        assert explanation.base[label] + parts == pytest.approx(score)


def test_views_unlearn_counts_and_refuse_what_was_never_learned():
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    for x, y in two_views():
        model.learn_one(x, y)
    before = [member.counts.as_dict() for member in model.models]
    x, y = next(two_views(seed=9))
    model.learn_one(x, y)
    receipt = model.receipt
    model.unlearn_one(x, y, receipt=receipt)
    assert [member.counts.as_dict() for member in model.models] == before
    strange = [x[0], {"never": 1}]
    with pytest.raises(ValueError, match="cannot unlearn"):
        model.unlearn_one(strange, y, receipt=receipt._replace(view_weights=(0.0, 1.0)))
    assert [member.counts.as_dict() for member in model.models] == before


@given(st.integers(1, 60), st.randoms())
def test_views_unlearn_all_they_learned_in_any_order(size, random):
    """Counts, recalibration and estimate of wrong labels: to the last bit."""
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    stream = list(two_views(n=20 + size))
    for x, y in stream[:20]:
        model.learn_one(x, y)
    copied = copy.deepcopy(model)
    done = []
    for x, y in stream[20:]:
        model.learn_one(x, y)
        done.append((x, y, 1.0, model.receipt))
    random.shuffle(done)
    for item in done:
        model.unlearn_one(*item)
    assert model.calibration.recalibration == copied.calibration.recalibration
    assert model.calibration.noise.state() == copied.calibration.noise.state()
    assert model.calibration.present_classes.state() == copied.calibration.present_classes.state()
    for own, expected in zip(model.models, copied.models, strict=True):
        assert own.counts == expected.counts


def test_predicting_never_changes_views():
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    for x, y in two_views():
        model.learn_one(x, y)
    copied = copy.deepcopy(model)
    for x, _ in two_views(seed=7):
        model.predict_proba_one(x)
        model.explain_one(x)
    assert model.calibration.recalibration == copied.calibration.recalibration
    assert model.calibration.noise.state() == copied.calibration.noise.state()
    assert all(
        own.counts == expected.counts
        for own, expected in zip(model.models, copied.models, strict=True)
    )


def test_merged_views_count_both_streams():
    first, second = (
        ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()]) for _ in range(2)
    )
    first.learn_one([{}, {}], "spam")
    second.learn_one([{}, {}], "ham")  # the classes in another order
    for x, y in two_views(seed=1):
        first.learn_one(x, y)
    for x, y in two_views(n=90, seed=2):
        second.learn_one(x, y)
    totals = [
        sum(item.counts.totals) + sum(two.counts.totals)
        for item, two in zip(first.models, second.models, strict=True)
    ]
    first.merge(second)
    assert [sum(value.counts.totals) for value in first.models] == totals
    # It had learned more, and knows each class by its label.
    assert (
        first.calibration.recalibration.systems[0].slopes()
        == second.calibration.recalibration.systems[0].slopes()
    )
    for k, label in enumerate(first.labels):
        place = second.labels.index(label)
        intercept = second.calibration.recalibration.systems[0].intercept(place)
        assert first.calibration.recalibration.systems[0].intercept(k) == intercept
    before = [model.counts.as_dict() for model in first.models]
    for unsuitable, explanation in (
        (ViewsNB([DiscriminativeMultinomialNB(decay=0.9) for _ in range(2)]), "differ in decay"),
        (ViewsNB([DiscriminativeMultinomialNB(), MultinomialNB()]), "cannot merge a Multinomial"),
    ):
        with pytest.raises(ValueError, match=explanation):
            first.merge(unsuitable)
    assert [model.counts.as_dict() for model in first.models] == before
    with pytest.raises(ValueError, match="different views"):
        first.merge(ViewsNB())


def test_labels_have_the_probability_of_wrong_ones():
    model = trained_views()
    x = next(iter(two_views()))[0]
    proba, label_proba = model.predict_proba_one(x), model.label_proba_one(x)
    assert math.fsum(label_proba.values()) == pytest.approx(1)
    assert max(label_proba.values()) < max(proba.values())
    assert ViewsNB().label_proba_one({"a": 1}) == {}


@pytest.mark.parametrize("views", [(), ("words", "words"), ("smells",)])
def test_bad_views_are_refused(views):
    with pytest.raises(ValueError, match="views"):
        MailClassifier(views=views)


def test_a_window_over_views():
    windowed = WindowNB(ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()]), 10)
    for x, y in two_views(n=50):
        windowed.learn_one(x, y)
    for model in windowed.model.models:
        assert sum(model.counts.weights) == 10
    for x, y, receipt in windowed._window:
        windowed.model.unlearn(x, y, receipt)
    for model in windowed.model.models:
        assert model.counts.features == 0


@pytest.mark.parametrize("make", [MultinomialNB, DiscriminativeMultinomialNB])
def test_doubted_labels_are_unlearned_exactly_too(make):
    model = ViewsNB([make(length_norm=1.0), make(length_norm=1.0)])
    rng = np.random.default_rng(3)
    windowed = WindowNB(model, 20)
    for x, y in two_views(n=400):
        windowed.learn_one(x, "spam" if rng.random() < 0.2 else y)
    for x, y, receipt in windowed._window:
        model.unlearn(x, y, receipt)
    assert [item.counts.features for item in model.models] == [0, 0]
    assert [item.counts.totals for item in model.models] == [[0.0, 0.0]] * 2


def test_one_class_explains_nothing():
    model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    x, y = next(two_views())
    model.learn_one(x, y)
    assert model.explain_one(x).scores == model.joint_log_likelihood(x) == {y: 0.0}


def test_the_priors_of_view_models_are_not_used():
    plain = ViewsNB([MultinomialNB(), MultinomialNB()])
    with_priors = ViewsNB([MultinomialNB(prior={"spam": 1}), MultinomialNB(prior="uniform")])
    for model in (plain, with_priors):
        for text, label in (("free offer", "spam"), ("lunch at noon", "ham"), ("free", "spam")):
            model.learn_one(dict.fromkeys(text.split(), 1), label)
    explanation, same = (
        model.explain_one({"free": 1, "noon": 1}) for model in (with_priors, plain)
    )
    assert explanation.scores == pytest.approx(same.scores)
    assert explanation.base == pytest.approx(same.base)
    assert explanation.contributions.keys() == same.contributions.keys()


def test_merged_models_have_both_records():
    first, second = trained_views(), trained_views()
    before = first.reliability_counts("spam")
    first.merge(second)
    assert first.reliability_counts("spam") == tuple(2 * n for n in before)


@pytest.mark.parametrize(
    "parts",
    [
        {"presence": ["0", 1, 1, 1, 0]},
        {"presence": [[0, 1, 1, 1, 0]]},
        {"presence": "01110"},
        {"presence": [0, 1e99, 1, 1, 0]},
        {"presence": [2, 1, 1, 1, 0]},
        {"presence": [0, 1, 1, 1]},
        {"noise": [1e50, 1]},
        {"noise": [0.1, 2.5]},
        {"record": [0, 1]},
        {"lengths": [[1, [[0]] * 2, [0, 0], [0], [0]]]},
        {"recalibration": [[0, "1"], [0, 0], [0], [0]]},
    ],
    ids=str,
)
def test_receipts_that_are_not_sound_are_refused(parts):
    model = trained_views()
    receipt = model.receipt._replace(deltas=parts)
    with pytest.raises((ValueError, TypeError)):
        model.check_receipt(receipt, 2)


def test_a_state_that_is_not_sound_changes_nothing():
    model = trained_views()
    before = model.state()
    for bad in ({"bound": -1}, {"presence": ["1"]}, {"record": [0, 1]}, {"by_length": 2}):
        with pytest.raises(ValueError, match=r"."):
            model.restore({**before, "noise": {"fixed": 0.1, "rates": [], "labels": []}, **bad})
        assert model.state() == before


def test_a_window_is_as_ready_as_its_model():
    model = WindowNB(trained_views(), size=50)
    assert model.reliability_counts("spam") == model.model.reliability_counts("spam")
    assert model.is_ready("spam") == model.model.is_ready("spam")
    assert WindowNB(ViewsNB(), size=5).is_ready("spam") is False
    assert model.messages_in_runs == model.model.messages_in_runs


def test_a_window_delegates_to_its_model():
    fresh, model = WindowNB(trained_views(), size=50), WindowNB(trained_views(), size=50)
    views, receipt = model.model, model.learn(({"a": 1}, {"b": 1}), "spam")
    assert receipt.deltas
    assert model.remap_classes(receipt, [1, 0]) == views.remap_classes(receipt, [1, 0]) != receipt
    model.check_receipt(receipt, 2)
    with pytest.raises(ValueError, match=r"."):
        model.check_receipt(receipt, 1)
    assert model.deltas_since(fresh) == views.deltas_since(fresh.model) != {}
    assert model.discriminative
    assert not WindowNB(MultinomialNB()).discriminative
    copied = {name for name in vars(TextModel) if name not in vars(WindowNB)}
    assert {name for name in copied if not name.startswith("__")} == {
        *("learn_one", "unlearn_one", "learn_many", "relearn_one", "explain_one"),
        *("features", "to_header", "reordered_header", "from_header", "_from_file", "noun"),
    }


def test_merged_models_unlearn_messages_of_both(tmp_path):
    """The merged model has the label noise of one model, which never counted the other's labels."""
    learned = []
    models = [ViewsNB([DiscriminativeMultinomialNB()]) for _ in range(2)]
    for seed, model in enumerate(models):
        for (x, _), y in two_views(seed=seed):
            model.learn_one([x], y)
            learned.append((x, y, model.receipt))
    merged = models[0]
    merged.merge(models[1])
    for x, y, receipt in learned:
        merged.unlearn_one([x], y, receipt=receipt)
        merged.learn_one([{"w1": 1}], "spam")
        merged.unlearn_one([{"w1": 1}], "spam", receipt=merged.receipt)
    merged.save(tmp_path / "merged.snb")
    assert ViewsNB.load(tmp_path / "merged.snb").reliability_counts("spam") == (0, 0)
