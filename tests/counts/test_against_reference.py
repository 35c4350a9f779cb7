"""Random histories of the real models and of the slow ones that recount everything."""

import copy
import os
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from reference import Reference

from streamnb import BernoulliNB, ComplementNB, MultinomialNB, TokenCounts

MODELS = {"multinomial": MultinomialNB, "bernoulli": BernoulliNB, "complement": ComplementNB}
WORDS = ["a", "b", "c", "d", ("e", 1), 6, b"f"]
LABELS = ["ham", "spam", "list", 3]

messages = st.dictionaries(st.sampled_from(WORDS), st.integers(0, 4), max_size=5)
labels = st.sampled_from(LABELS)
weights = st.sampled_from([1.0, 1.0, 2.0, 0.0])


class Histories(RuleBasedStateMachine):
    """Learn, unlearn, merge, save, load and change parameters in any order."""

    learned = Bundle("learned")

    @initialize(
        kind=st.sampled_from(sorted(MODELS)),
        alpha=st.sampled_from([0.01, 1.0, 2.5]),
        unseen=st.sampled_from(["ignore", "smooth"]),
        length_norm=st.sampled_from([None, 2.0]),
        complement=st.booleans(),
    )
    def begin(self, kind, alpha, unseen, length_norm, complement):
        self.model = MODELS[kind](alpha=alpha, unseen=unseen, length_norm=length_norm)
        self.slow = Reference(kind, alpha, self.model.prior, unseen, length_norm)
        if kind == "multinomial":
            self.model.complement = self.slow.complement = complement

    @rule(target=learned, x=messages, y=labels, w=weights)
    def learn(self, x, y, w):
        self.model.learn_one(x, y, w=w)
        self.slow.learn(x, y, w)
        return (x, y, w)

    @rule(target=learned, x=messages, y=labels)
    def learn_counts(self, x, y):
        self.model.learn_one(TokenCounts.from_dict(x), y)
        self.slow.learn(x, y)
        return (x, y, 1.0)

    @rule(example=learned)
    def unlearn(self, example):
        try:
            self.slow.unlearn(*example)
        except ValueError:
            return  # it was unlearned before
        self.model.unlearn_one(*example)

    @rule(several=st.lists(st.tuples(messages, labels), max_size=4))
    def merge(self, several):
        other = self.model.clone()
        slow = Reference(self.slow.kind)
        for x, y in several:
            other.learn_one(x, y)
            slow.learn(x, y)
        self.model.merge(other)
        self.slow.merge(slow)

    @rule()
    def reload(self):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.model.save(path)
            self.model = type(self.model).load(path)

    @rule(copy_model=st.sampled_from([copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]))
    def replicate(self, copy_model):
        self.model = copy_model(self.model)

    @rule(
        alpha=st.sampled_from([0.1, 1.0]),
        prior=st.sampled_from(["uniform", {"ham": 3, "spam": 1, "list": 1, 3: 1}]),
    )
    def change_the_formula(self, alpha, prior):
        self.model.alpha = self.slow.alpha = alpha
        self.model.prior = self.slow.prior = prior

    @rule(x=messages)
    def compare(self, x):
        scores, expected = self.model.joint_log_likelihood(x), self.slow.joint_log_likelihood(x)
        assert list(scores) == list(expected)
        assert scores == pytest.approx(expected, rel=1e-12, abs=1e-12)
        proba = self.model.predict_proba_one(x)
        assert proba == pytest.approx(self.slow.predict_proba(x), rel=1e-9, abs=1e-12)
        assert not proba or sum(proba.values()) == pytest.approx(1, abs=1e-9)

    @invariant()
    def vocabulary_is_what_is_counted(self):
        if hasattr(self, "model"):
            assert self.model.counts.features == len(self.slow.vocabulary())


FULL = os.environ.get("STREAMNB_TESTS") == "full"
TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150 if FULL else 30, stateful_step_count=30)
