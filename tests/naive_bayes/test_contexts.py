"""Nested grams of bytes, against their formula."""

import math
from collections import defaultdict

import numpy as np
import pytest
from definitions import slow_nested
from hypothesis import given
from hypothesis import strategies as st

from streamnb import _core
from streamnb.features.grams import ByteGrams
from streamnb.naive_bayes import ContextNB


def slow_share(gram, k, table, totals, step, alpha=0.1, spread=3.0):
    """The formula of `ContextNB`, computed directly."""
    own = table.get(gram, (0, 0))[k]
    if len(gram) == step:
        room = alpha * 256**step
        return (own + alpha) / (totals[k] + room)
    shorter = gram[step:]
    back = slow_share(shorter, k, table, totals, step, alpha, spread)
    if not sum(table.get(shorter, (0, 0))):
        return back
    before = max(table.get(gram[:-step], (0, 0))[k], own)
    stands = spread * math.sqrt(before)
    return (own + stands * back) / (before + stands) if before else back


@given(
    st.lists(st.tuples(st.text("abc ", max_size=30), st.integers(0, 1)), max_size=6),
    st.text("abcd ", min_size=6, max_size=30),
    st.sampled_from([(6, 2), (4, 2), (6, 3)]),
)
def test_contexts_follow_the_formula(texts, question, sizes):
    n, step = sizes
    grams = ByteGrams(n, step=step, mail=False)
    table, totals = defaultdict(lambda: [0, 0]), [0, 0]
    for text, k in texts:
        for gram, count in slow_nested(text.encode(), n, step).items():
            table[gram][k] += count
            totals[k] += count
    tokens = grams.count(question)
    names = [grams.name(int(value)) for value in tokens.fingerprints]
    cells = np.array([table.get(name, (0, 0)) for name in names], dtype=float)
    logs, longest = _core.backoff_log_probabilities(
        tokens.fingerprints, cells, [float(x) for x in totals], 0.1, 3.0, step
    )
    inside = {gram[step:] for gram in names}
    for name, row, is_longest in zip(names, logs, longest, strict=True):
        assert is_longest == (name not in inside)
        for k in (0, 1):
            if all(name[:-step][i:] in names for i in range(0, len(name) - step, step)):
                share = slow_share(name, k, table, totals, step)
                assert row[k] == pytest.approx(math.log(share))


def test_the_strongest_contexts_are_grams_that_explain_messages():
    grams, model = ByteGrams(n=6, step=2, mail=False), ContextNB()
    texts = [("free offer", "spam"), ("lunch at noon", "ham"), ("offers for you", "spam")]
    for text, label in texts:
        model.learn_one(grams.count(text), label)
    expected = {"spam": {}, "ham": {}}
    for text, _ in texts:
        tokens = grams.count(text)
        weights, longest = model._weights_of(tokens.fingerprints)
        rows = zip(tokens.fingerprints.tolist(), weights, longest, strict=True)
        for value, (spam, ham), odds in rows:
            if odds and len(grams.name(value)) == 6:
                expected["spam"][value], expected["ham"][value] = (spam - ham) / 2, (ham - spam) / 2
    for label, result in zip(model.labels, model.top_fingerprints(model.labels, 500), strict=True):
        whole = {value: gain for value, gain in result if len(grams.name(value)) == 6}
        assert whole == pytest.approx(expected[label])
        for gram in (grams.name(value) for value, _ in result if value not in whole):
            assert any(
                gram in text[:5].encode() for text, _ in texts
            )  # as at the beginning of a text
