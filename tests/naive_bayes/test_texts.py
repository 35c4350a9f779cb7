"""The examples of the five texts streamnb began from, with their own figures or why not."""

import csv
from math import exp, pi
from pathlib import Path

import pytest

from streamnb import AODE, BernoulliNB, CategoricalNB, GaussianNB, MixedNB, MultinomialNB

TABLES = Path(__file__).parents[2] / "corpora" / "tables"


def rows(name, label):
    """The rows of a table as dicts, numbers as numbers, and their labels."""
    with open(TABLES / f"{name}.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            y = row.pop(label)
            yield (
                {key: float(value) if value[0].isdigit() else value for key, value in row.items()},
                y,
            )


def trained(model, name, label):
    for x, y in rows(name, label):
        model.learn_one(x, y)
    return model


def likelihoods(model, x):
    return {label: exp(score) for label, score in model.joint_log_likelihood(x).items()}


def words(model):
    for x, word in rows("words", "word"):
        for label, count in x.items():
            model.learn_one({word: count}, label)
    model.prior = {"not spam": 15, "spam": 10}
    return model


def test_hello_friend():
    """K. A. Islam: .0155 against .00072 without smoothing. (.01557 is cut off, not rounded.)"""
    joint = likelihoods(words(MultinomialNB(alpha=1e-12)), {"Hello": 1, "Friend": 1})
    assert joint["not spam"] == pytest.approx(5 / 34 * 6 / 34 * 15 / 25)
    assert joint["spam"] == pytest.approx(4 / 47 * 1 / 47 * 10 / 25)
    assert (int(joint["not spam"] * 1e4), round(joint["spam"], 5)) == (155, 0.00072)


def test_hello_friend_smoothed():
    """His formula with alpha 1 and N = 10 words; no word is impossible any more."""
    model = words(MultinomialNB(alpha=1))
    joint = likelihoods(model, {"Hello": 1, "Friend": 1})
    assert joint["not spam"] == pytest.approx(6 / 44 * 7 / 44 * 15 / 25)
    assert joint["spam"] == pytest.approx(5 / 57 * 2 / 57 * 10 / 25)
    assert {label: round(p, 5) for label, p in joint.items()} == {
        "not spam": 0.01302,
        "spam": 0.00123,
    }
    assert likelihoods(words(MultinomialNB(alpha=1e-12)), {"Discount": 1})["not spam"] < 1e-12
    assert likelihoods(model, {"Discount": 1})["not spam"] == pytest.approx(1 / 44 * 15 / 25)


NEW_DAY = {"outlook": "sunny", "temperature": "cool", "humidity": "high", "windy": "TRUE"}


def test_weather():
    """K. A. Islam, after Witten and Frank: .0053 and .0206, therefore no."""
    model = trained(CategoricalNB(alpha=0), "weather", "play")
    joint = likelihoods(model, NEW_DAY)
    assert joint["yes"] == pytest.approx(2 / 9 * 3 / 9 * 3 / 9 * 3 / 9 * 9 / 14)
    assert {label: round(p, 4) for label, p in joint.items()} == {"yes": 0.0053, "no": 0.0206}
    assert model.predict_one(NEW_DAY) == "no"


def test_weather_with_numbers():
    """Density .0340 for 66 degrees given yes; .000036 and .000136.

    The density as printed, exp(-(w - mean)^2 / sd^2), lacks the 2 that the line below it has; without
    it 66 degrees would have .0178. The text's .0291 for 66 degrees given no is not that of its own mean 74.6
    and standard deviation 7.9, which is .0279; its product .000136 is right.
    """
    model = trained(MixedNB(alpha=0, ddof=1, var_smoothing=0), "weather_numeric", "play")
    day = {"outlook": "sunny", "temperature": 66, "humidity": 90, "windy": "TRUE"}
    joint = likelihoods(model, day)
    assert round(joint["yes"], 6) == 0.000036
    assert round(joint["no"], 6) == 0.000136
    assert joint == pytest.approx({"no": 1.3634724e-4, "yes": 3.5787084e-5})  # what the rows give
    assert model.predict_one(day) == "no"
    prior = {"yes": 9 / 14, "no": 5 / 14}
    density = {
        label: p / prior[label] for label, p in likelihoods(model, {"temperature": 66}).items()
    }
    assert round(density["yes"], 4) == 0.0340
    assert round(exp(-(7**2) / 38) / (2 * pi * 38) ** 0.5, 4) == 0.0178
    assert density["no"] == pytest.approx(0.027918, rel=1e-4)
    humidity = {
        label: p / prior[label] for label, p in likelihoods(model, {"humidity": 90}).items()
    }
    assert {label: round(p, 4) for label, p in humidity.items()} == {"yes": 0.0221, "no": 0.0380}


MEANS = {
    ("temperature", "yes"): (73, 6.2), ("temperature", "no"): (74.6, 7.9),
    ("humidity", "yes"): (79.1, 10.2), ("humidity", "no"): (86.2, 9.7),
}  # fmt: skip


@pytest.mark.parametrize(("feature", "label"), MEANS)
def test_weather_means_and_deviations(feature, label):
    model = GaussianNB(ddof=1)
    for x, y in rows("weather_numeric", "play"):
        model.learn_one({feature: x[feature]}, y)
    moments = model.feature_moments(label, feature)
    assert (round(moments.mean, 1), round(moments.variance**0.5, 1)) == MEANS[feature, label]


TABLE_IV = {
    ("no", "outlook"): {"overcast": 0.1250, "rainy": 0.3750, "sunny": 0.5000},
    ("no", "temperature"): {"cool": 0.2500, "hot": 0.3750, "mild": 0.3750},
    ("no", "humidity"): {"high": 0.7143, "normal": 0.2857},
    ("no", "windy"): {"FALSE": 0.4286, "TRUE": 0.5714},
    ("yes", "outlook"): {"overcast": 0.4167, "rainy": 0.3333, "sunny": 0.2500},
    ("yes", "temperature"): {"cool": 0.3333, "hot": 0.2500, "mild": 0.4167},
    ("yes", "humidity"): {"high": 0.3636, "normal": 0.6364},
    ("yes", "windy"): {"FALSE": 0.6364, "TRUE": 0.3636},
}


@pytest.mark.parametrize(("label", "feature"), TABLE_IV)
def test_every_cell_of_serranos_table(label, feature):
    model = trained(CategoricalNB(), "weather", "play")
    shares = model.likelihoods(label, feature)
    assert {level: round(p, 4) for level, p in shares.items()} == TABLE_IV[label, feature]


def test_priors_and_play_given_sunny():
    """K. Serrano: priors .3571 and .6429; P(yes | sunny) = (9/14)(2/9)/(5/14) = .4."""
    model = CategoricalNB(alpha=0)
    for x, y in rows("weather", "play"):
        model.learn_one({"outlook": x["outlook"]}, y)
    assert model.predict_proba_one({"outlook": "sunny"})["yes"] == pytest.approx(0.4)
    assert {label: round(p, 4) for label, p in model.predict_proba_one({}).items()} == {
        "yes": 0.6429,
        "no": 0.3571,
    }


def test_height_weight_and_shoe_size():
    """The Brilliant wiki: 6.120e-9 against 5.378e-4.

    The first is a slip: its own factors, .5 x 1.579 x 5.988e-6 x 1.311e-3, make 6.198e-9, which is
    what the eight rows give.
    """
    model = trained(GaussianNB(ddof=1, var_smoothing=0), "heights", "gender")
    joint = likelihoods(model, {"height": 6, "weight": 130, "shoe": 8})
    assert float(f"{joint['female']:.3e}") == 5.378e-4
    assert joint["male"] == pytest.approx(0.5 * 1.579 * 5.988e-6 * 1.311e-3, rel=1e-3)
    assert joint["male"] == pytest.approx(6.1971e-9, rel=1e-4)
    assert model.predict_one({"height": 6, "weight": 130, "shoe": 8}) == "female"
    densities = {
        name: {label: 2 * p for label, p in likelihoods(model, {name: value}).items()}
        for name, value in (("height", 6), ("weight", 130), ("shoe", 8))
    }
    assert densities["height"] == pytest.approx({"male": 1.579, "female": 0.2235}, rel=5e-4)
    assert densities["weight"] == pytest.approx({"male": 5.988e-6, "female": 0.01679}, rel=5e-4)
    assert densities["shoe"] == pytest.approx({"male": 1.311e-3, "female": 0.2867}, rel=5e-4)


KNOWN = {
    ("male", "height"): (5.855, 0.0350), ("male", "weight"): (176.25, 122.9), ("male", "shoe"): (11.25, 0.9167),
    ("female", "height"): (5.418, 0.0972), ("female", "weight"): (132.5, 558.3), ("female", "shoe"): (7.5, 1.667),
}  # fmt: skip


@pytest.mark.parametrize(("label", "feature"), KNOWN)
def test_means_and_unbiased_variances(label, feature):
    moments = trained(GaussianNB(ddof=1), "heights", "gender").feature_moments(label, feature)
    assert (moments.mean, moments.variance) == pytest.approx(KNOWN[label, feature], rel=1e-3)


def test_smoothing_of_binary_pixels():
    """K. A. Islam: (count + 1) / (records + 2)."""
    model = BernoulliNB(alpha=1, prior="uniform")
    for pixels, digit in [({"p": 1}, 5), ({"p": 1}, 5), ({"q": 1}, 5), ({"q": 1}, 6)]:
        model.learn_one(pixels, digit)
    joint = likelihoods(model, {"p": 1, "q": 1})
    assert joint == pytest.approx({5: 0.5 * 3 / 5 * 2 / 5, 6: 0.5 * 1 / 3 * 2 / 3})


def test_exclusive_or():
    """K. A. Islam's example of what conditional independence cannot say."""
    naive, aode = CategoricalNB(), AODE(alpha=0)
    for x in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for model in (naive, aode):
            model.learn_one({"X1": x[0], "X2": x[1]}, x[0] ^ x[1])
    for a in (0, 1):
        for b in (0, 1):
            assert naive.predict_proba_one({"X1": a, "X2": b}) == {0: 0.5, 1: 0.5}
            assert aode.predict_proba_one({"X1": a, "X2": b}) == {a ^ b: 1.0, 1 - (a ^ b): 0.0}
