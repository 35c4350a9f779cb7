"""Models of tables compared with scikit-learn's and river's, in one run: the table of the README.

python tests/benchmarks/tables.py
"""

import csv
import statistics
import time
from pathlib import Path

import numpy as np
import river.naive_bayes
import sklearn.datasets
import sklearn.discriminant_analysis
import sklearn.naive_bayes

from streamnb import CategoricalNB, GaussianDiscriminantAnalysis, GaussianNB

TABLES = Path(__file__).parents[2] / "corpora" / "tables"


def wheat():
    """Return 210 wheat kernels with seven measurements, and their varieties."""
    with open(TABLES / "wheat_seeds.csv", encoding="utf-8", newline="") as file:
        rows = np.array(list(csv.reader(file))[1:], dtype=float)
    return np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(int)


def side_by_side(own, reference, times=200, rounds=15):
    """Run both by turns; return the median microseconds, and the median of the ratios."""
    result = []
    for _ in range(rounds):
        took = []
        for act in (own, reference):
            began = time.perf_counter()
            for _ in range(times):
                act()
            took.append((time.perf_counter() - began) / times * 1e6)
        result.append(took)
    a, b = (statistics.median(took[i] for took in result) for i in (0, 1))
    return a, b, statistics.median(took[0] / took[1] for took in result)


def main():
    X, y = wheat()
    order = np.random.default_rng(1).permutation(len(y))
    learned, tested = np.sort(order[:168]), np.sort(order[168:])
    Xl, yl, Xt = X[learned], y[learned], X[tested]
    own, reference = GaussianNB().fit(Xl, yl), sklearn.naive_bayes.GaussianNB().fit(Xl, yl)
    rivers = river.naive_bayes.GaussianNB()
    row, dicts = Xl[:1], [dict(enumerate(x)) for x in X.tolist()]
    for x, label in zip(dicts, y.tolist(), strict=True):
        rivers.learn_one(x, label)
    digits = sklearn.datasets.load_digits()
    D, d = digits.data, digits.target
    levels = (D > 7).astype(int)
    categorical, their_categorical = (
        CategoricalNB(),
        sklearn.naive_bayes.CategoricalNB(min_categories=2),
    )
    linear, their_linear = (
        GaussianDiscriminantAnalysis(var_smoothing=1e-6),
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr"),
    )
    cases = [
        ("wheat, 168 rows: GaussianNB fit", "scikit-learn", lambda: GaussianNB().fit(Xl, yl), lambda: sklearn.naive_bayes.GaussianNB().fit(Xl, yl), 200),
        ("wheat, 42 rows: GaussianNB predict", "scikit-learn", lambda: own.predict(Xt), lambda: reference.predict(Xt), 200),
        ("wheat: GaussianNB partial_fit of one row", "scikit-learn", lambda: own.partial_fit(row, yl[:1]), lambda: reference.partial_fit(row, yl[:1]), 200),
        ("wheat: GaussianNB learn_one", "river", lambda: own.learn_one(dicts[0], 1), lambda: rivers.learn_one(dicts[0], 1), 200),
        ("wheat: GaussianNB learn_one + predict_one", "river", lambda: (own.learn_one(dicts[0], 1), own.predict_one(dicts[1])), lambda: (rivers.learn_one(dicts[0], 1), rivers.predict_one(dicts[1])), 200),
        ("digits, 1,797 rows: GaussianNB fit", "scikit-learn", lambda: GaussianNB().fit(D, d), lambda: sklearn.naive_bayes.GaussianNB().fit(D, d), 5),
        ("digits: CategoricalNB fit", "scikit-learn", lambda: categorical.fit(levels, d), lambda: their_categorical.fit(levels, d), 2),
        ("digits: discriminant analysis fit + predict", "scikit-learn", lambda: linear.fit(D, d).predict(D), lambda: their_linear.fit(D, d).predict(D), 2),
    ]  # fmt: skip
    print("| | streamnb, µs | beside | µs | ratio |\n|---|---|---|---|---|")
    for name, other, act, baseline, times in cases:
        a, b, ratio = side_by_side(act, baseline, times)
        print(f"| {name} | {a:,.0f} | {other} | {b:,.0f} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
