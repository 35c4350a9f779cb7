"""A model equals a second one that learned the same by other calls, copies and files."""

import copy
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import streamnb
from streamnb import (
    BernoulliNB,
    Classifier,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    ViewsNB,
    WindowNB,
)

MODELS = {
    "multinomial": lambda: MultinomialNB(length_norm=2.0, unseen="smooth"),
    "bernoulli": BernoulliNB,
    "complement": ComplementNB,
    "discriminative": lambda: DiscriminativeMultinomialNB(min_update=0.03, complement=True),
    "decay": lambda: DiscriminativeMultinomialNB(decay=0.5),
    "bounded": lambda: DiscriminativeMultinomialNB(max_features=6),
    "views": lambda: ViewsNB(
        [DiscriminativeMultinomialNB(complement=True), MultinomialNB()],
        systems=4,
        bound=8.0,
        by_length=True,
    ),
    "decaying views": lambda: ViewsNB(
        [DiscriminativeMultinomialNB(decay=0.5), DiscriminativeMultinomialNB(decay=0.5)], systems=2
    ),
    "any classifier": lambda: Classifier(Tokenizer(), BernoulliNB()),
    "texts": TextClassifier,
    "bounded texts": lambda: TextClassifier(max_features=20),
    "window": lambda: WindowNB(MultinomialNB(), 3),
    "window over views": lambda: WindowNB(ViewsNB(systems=4), 3),
    "window that decays": lambda: WindowNB(MultinomialNB(decay=0.5), 3),
}
LOSSY = {"decay", "bounded", "decaying views", "bounded texts"}  # unlearning is not exact
LABELS = ["a", "b", 1, "1", 2.5, "ünï", "c d", "", -7]
WORDS = [*(f"w{i}" for i in range(9)), "é", "e\u0301", ""]

messages = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 3), max_size=5)
labels = st.sampled_from(LABELS)
weights = st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.5, 0.0])


class AnyLife(RuleBasedStateMachine):
    """Two models: one learns single messages; the other learns them in other forms, and is copied."""

    @initialize(kind=st.sampled_from(sorted(MODELS)))
    def begin(self, kind):
        self.kind = kind
        self.first, self.second = MODELS[kind](), MODELS[kind]()
        self.receipts = []

    def message(self, words):
        if isinstance(self.first, Classifier):
            return " ".join(word for word, n in words.items() for _ in range(n))
        return words

    def state(self, model):
        """Return the content of the file of a model."""
        inner = model.model if isinstance(model, (WindowNB, Classifier)) else model
        header, arrays = inner._to_file()
        return header, {name: array.tobytes() for name, array in arrays.items()}

    @rule(
        words=messages,
        y=labels,
        w=weights,
        is_many=st.booleans(),
        feedback=st.sampled_from([None, "all", "errors"]),
    )
    def learn(self, words, y, w, is_many, feedback):
        x = self.message(words)
        other = x if isinstance(x, str) else dict(reversed(x.items()))  # in another order
        if is_many:
            self.first.learn_one(x, y, w)
            self.second.learn_many([other], [y], [w])
        else:
            self.first.learn_one(x, y, w, feedback)
            self.second.learn_one(other, y, w, feedback)
        self.receipts.append((x, y, self.first.receipt))

    @rule(index=st.integers(0, 50))
    def unlearn(self, index):
        if self.receipts:
            x, y, receipt = self.receipts.pop(index % len(self.receipts))
            for model in (self.first, self.second):
                try:
                    model.unlearn_one(x, y, receipt=receipt)
                except ValueError:
                    assert self.kind.startswith("window")  # the message has left the window

    @rule(words=messages, y=labels, w=weights)
    def learn_and_unlearn(self, words, y, w):
        if self.kind in LOSSY or self.kind.startswith("window") or y not in self.first.labels:
            return
        before = self.first.joint_log_likelihood(self.message({"w1": 1}))
        for model in (self.first, self.second):
            model.learn_one(self.message(words), y, w)
            model.unlearn_one(self.message(words), y, receipt=model.receipt)
        assert self.first.joint_log_likelihood(self.message({"w1": 1})) == before

    @rule(way=st.sampled_from(["pickle", "copy", "clone", "file"]))
    def replace(self, way):
        """Replace the second model by a copy of the first."""
        if way == "pickle":
            self.second = pickle.loads(pickle.dumps(self.first))
        elif way == "copy":
            self.second = copy.deepcopy(self.first)
        elif way == "clone":
            self.second = self.first.clone(include_attributes=True)
        elif not isinstance(self.first, WindowNB):
            with TemporaryDirectory() as folder:
                self.first.save(Path(folder) / "model")
                self.second = streamnb.load(Path(folder) / "model")

    @rule()
    def clone(self):
        """A clone has learned nothing."""
        assert self.state(self.first.clone()) == self.state(MODELS[self.kind]())

    @rule(words=messages)
    def predict(self, words):
        """Many rows have the probabilities of each, and predictions change nothing."""
        x = self.message(words)
        before = self.state(self.first)
        proba = self.first.predict_proba_one(x)
        if proba:
            many = np.asarray(self.first.predict_proba_many([x, x]))
            assert np.allclose(np.sort(many[1]), sorted(proba.values()), rtol=1e-12)
        assert self.state(self.first) == before
        assert self.second.predict_proba_one(x) == proba

    @invariant()
    def both_are_equal(self):
        if hasattr(self, "first"):
            assert self.state(self.first) == self.state(self.second)
            x = self.message({"w1": 1, "w2": 2, "new": 1})
            scores = self.first.joint_log_likelihood(x)
            assert self.second.joint_log_likelihood(x) == scores


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(stateful_step_count=20)
