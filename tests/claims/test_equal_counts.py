"""Counts are equal for any order of their classes."""

from itertools import permutations

import pytest

from streamnb import MultinomialNB


@pytest.mark.parametrize("labels", [[1, "1"], ["b", "a", "c"], [2.5, "2.5", 2], [True, "True", 0]])
def test_counts_are_equal_in_any_order_of_classes(labels):
    models = []
    for order in permutations(labels):
        model = MultinomialNB()
        for label in order:
            model.learn_one({f"word of {label!r}": 1}, label)
        models.append(model)
    assert all(model.counts == models[0].counts for model in models)
    models[-1].learn_one({"another": 1}, labels[0])
    assert models[-1].counts != models[0].counts
