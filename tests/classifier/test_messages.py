"""Errors that advise: each mistake at each entry point where users can make it."""

import email.message

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import streamnb
from streamnb import Classifier, MailClassifier, MultinomialNB, TextClassifier, Tokenizer, ViewsNB
from streamnb import sklearn as estimators
from streamnb.evaluate import prequential
from streamnb.features.views import Views

NAN = float("nan")
MODELS = [
    getattr(streamnb, name)
    for name in streamnb.__all__
    if hasattr(getattr(streamnb, name), "parameter_table")
]
ESTIMATORS = [getattr(estimators, name) for name in estimators.__all__]


@pytest.mark.parametrize("make", MODELS + ESTIMATORS, ids=lambda make: make.__module__)
def test_misspelt_parameters_get_a_suggestion(make):
    name = max(make.parameter_table, key=len)
    wrong = name[:-2] + name[-1] + name[-2]
    with pytest.raises(TypeError, match=f"no parameter {wrong!r}; did you mean {name!r}"):
        make(**{wrong: 1})


# A parameter of scikit-learn, a model that has it by another name, and that name.
FOREIGN = [
    ("fit_prior", streamnb.MultinomialNB, "prior='uniform'"),
    ("fit_prior", estimators.ComplementNB, "scikit-learn ignores it"),
    ("force_alpha", streamnb.BernoulliNB, "alpha is never changed"),
    ("norm", streamnb.ComplementNB, "length_norm="),
    ("lowercase", estimators.MultinomialNB, "tokenizer.*casefold="),
    ("ngram_range", streamnb.TextClassifier, "tokenizer.*ngrams="),
    ("reg_param", streamnb.GaussianDiscriminantAnalysis, "shrinkage="),
    ("analyzer", streamnb.MultinomialNB, "tokenizer.*analyzer="),
    ("ngram_range", streamnb.MultinomialNB, "tokenizer.*ngrams="),
    ("stop_words", streamnb.MultinomialNB, "tokenizer.*stop_words="),
    ("stop_words", streamnb.MailTokenizer, "it has casefold"),
    ("norm", streamnb.Tokenizer, "it has casefold"),
    ("binary", streamnb.CategoricalNB, "it has alpha"),
]


@pytest.mark.parametrize(("word", "make", "answer"), FOREIGN)
def test_words_of_scikit_learn_are_answered_with_ours(word, make, answer):
    with pytest.raises(TypeError, match=answer):
        make(**{word: 1})
    with pytest.raises(ValueError, match=answer):
        make().set_params(**{word: 1})


# Parameters of scikit-learn, a class, and the parameters of ours that are the same.
SYNONYMS = [
    (streamnb.MultinomialNB, {"fit_prior": False, "class_prior": None}, {"prior": "uniform"}),
    (streamnb.GaussianNB, {"priors": {"a": 1.0}}, {"prior": {"a": 1.0}}),
    (estimators.BernoulliNB, {"fit_prior": True, "force_alpha": True}, {"prior": "learned"}),
    (estimators.MultinomialNB, {"class_prior": [0.3, 0.7]}, {"prior": [0.3, 0.7]}),
    (estimators.GaussianNB, {"priors": (0.3, 0.7)}, {"prior": (0.3, 0.7)}),
    (streamnb.Tokenizer, {"ngram_range": (1, 2), "lowercase": False}, {"ngrams": (1, 2)}),
    (streamnb.MailTokenizer, {"ngram_range": (1, 2)}, {"ngrams": (1, 2)}),
]


@pytest.mark.parametrize(("make", "foreign", "expected"), SYNONYMS)
def test_parameters_of_scikit_learn_that_mean_the_same_are_taken(make, foreign, expected):
    for model in (make(**foreign), make().set_params(**foreign)):
        assert {name: model.get_params()[name] for name in expected} == expected
        assert not set(foreign) & set(model.get_params())


@pytest.mark.parametrize(
    ("make", "values", "answer"),
    [
        (streamnb.Tokenizer, {"stop_words": "english"}, "pass the words"),
        (streamnb.MultinomialNB, {"class_prior": [0.5, 0.5]}, "prior: .* write {label: share"),
        (streamnb.MultinomialNB, {"alpha": 0}, "use alpha=1e-10"),
        (streamnb.TextClassifier, {"alpha": 0.0}, "use alpha=1e-10"),
    ],
)
def test_values_of_scikit_learn_are_answered(make, values, answer):
    with pytest.raises(ValueError, match=answer):
        make(**values)


@pytest.mark.parametrize("prior", [{"a": 0.33, "b": 0.33, "c": 0.33}, {"a": 3, "b": 7.0}])
def test_shares_can_be_rounded_or_whole(prior):
    assert streamnb.GaussianNB(prior=prior).prior == prior


def test_smoothing_of_other_libraries_is_answered():
    for make, name in ((streamnb.GaussianNB, "var_smoothing"), (streamnb.MultinomialNB, "alpha")):
        with pytest.raises(TypeError, match=f"no parameter 'smoothing': use {name}=$"):
            make(smoothing=1.0)


@pytest.mark.parametrize("name", ["GaussianNB", "GaussianDiscriminantAnalysis", "MultinomialNB"])
@pytest.mark.parametrize("make", [list, lambda rows: np.array(rows, dtype=object), np.array])
def test_the_cell_of_a_text_among_numbers_is_named(name, make):
    with pytest.raises(ValueError, match="row 1, column 0"):
        getattr(streamnb.sklearn, name)().fit(make([[1, 2], ["x", 1], [3, 4]]), [0, 1, 0])


@pytest.mark.parametrize("make", ESTIMATORS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("value", [NAN, np.inf])
def test_the_row_of_a_bad_number_is_named(make, value):
    X = np.ones((4, 3))
    X[2, 1] = value
    y = [0, 1, 0, 1]
    is_textual = "Classifier" in make.__name__
    takes_nan = not is_textual and make().__sklearn_tags__().input_tags.allow_nan
    if not is_textual and not (takes_nan and value != value):
        with pytest.raises(ValueError, match=r"row 2.*1"):
            make().fit(X, y)
    if make().__sklearn_tags__().input_tags.sparse:
        with pytest.raises(ValueError, match="row 2, column 1"):
            make().fit(sparse.csr_matrix(X), y)
    fine = ["text"] * 4 if is_textual else np.ones((4, 3))
    with pytest.raises(ValueError, match="row 1"):
        make().fit(fine, [0.0, value, 0.0, 1.0])


READERS = {
    "Tokenizer": lambda x: streamnb.Tokenizer(on="body").count(x),
    "MailTokenizer": lambda x: streamnb.MailTokenizer(on="body").count(x),
    "TextClassifier": lambda x: streamnb.TextClassifier(on="body").classify(x),
    "Classifier": lambda x: streamnb.Classifier(
        streamnb.Tokenizer(), streamnb.MultinomialNB(), on="body"
    ).learn_one(x, "spam"),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_an_error_names_the_missing_key_and_the_present_keys(read):
    with pytest.raises(ValueError, match="no key 'body'; it has 'title', 'text'"):
        read({"title": "a", "text": "b"})
    with pytest.raises(TypeError, match="on='body': a message must be a dict"):
        read("a text")


def test_swapped_arguments_and_pairs_of_prequential():
    stream = [("free offer", "spam"), ("lunch", "ham")]
    with pytest.raises(TypeError, match=r"prequential\(stream, model\)"):
        next(prequential(streamnb.TextClassifier(), stream))
    with pytest.raises(TypeError, match="pairs of message and label"):
        next(prequential(["free offer"], streamnb.TextClassifier()))
    assert [step.y for step in prequential(stream, streamnb.TextClassifier())] == ["spam", "ham"]


def test_features_that_were_never_learned_are_named():
    model = streamnb.MultinomialNB()
    model.learn_one({"free": 1}, "spam")
    for feature in ("offer", ("new", "york"), 7, b"\x00"):
        with pytest.raises(ValueError, match="cannot unlearn 1 of feature") as caught:
            model.unlearn_one({"free": 1, feature: 1}, "spam")
        assert repr(feature) in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"prior": "uniform", "fit_prior": True},
        {"prior": "uniform", "class_prior": {"a": 0.5, "b": 0.5}},
    ],
)
def test_both_names_of_a_parameter_are_refused(values):
    with pytest.raises((TypeError, ValueError), match="prior"):
        streamnb.MultinomialNB(**values)


def test_no_prior_of_scikit_learn_is_the_default():
    model = estimators.MultinomialNB(class_prior=[0.9, 0.1])
    assert model.set_params(class_prior=None).prior == "learned"
    assert streamnb.MultinomialNB(alpha=0.5).clone({"force_alpha": True}).alpha == 0.5


ROW_CLASSIFIERS = {
    "tokenizer": lambda: Classifier(Tokenizer(on="s"), MultinomialNB()),
    "views": lambda: Classifier(
        Views([Tokenizer(on="s"), Tokenizer(on="s")], mail=False),
        ViewsNB([MultinomialNB(), MultinomialNB()]),
    ),
    "function": lambda: Classifier(lambda row: row["s"].split(), MultinomialNB()),
    "classifier": lambda: Classifier(Tokenizer(), MultinomialNB(), on="s"),
}


@pytest.mark.parametrize("columns", [["s"], ["s", "t"]])
@pytest.mark.parametrize("kind", ROW_CLASSIFIERS)
def test_rows_of_frames_are_dicts_for_classifiers_of_rows(kind, columns):
    if kind == "function" and len(columns) == 1:
        return  # a function takes the values of a single column
    frame = pd.DataFrame({"s": ["free pills", "lunch at noon"], "t": ["a", "b"]})[columns]
    model = ROW_CLASSIFIERS[kind]()
    model.learn_many(frame, ["spam", "ham"])
    assert list(model.predict_many(frame)) == ["spam", "ham"]
    assert list(model.predict_many(frame.to_dict("records"))) == ["spam", "ham"]


@pytest.mark.parametrize(
    ("X", "error"),
    [
        ("hello", "a str is a single message"),
        (b"hello", "a bytes is a single message"),
        ({"a", "b"}, "X is a set"),
        (3, "'int' object is not iterable"),
    ],
)
def test_errors_of_the_whole_input_name_no_row(X, error):
    with pytest.raises((TypeError, ValueError), match=f"^{error}"):
        TextClassifier().learn_many(X, ["x"])


@pytest.mark.parametrize("views", [("header",), ("bytes",), ("pairs",)])
def test_a_message_of_the_module_email_is_answered_with_its_bytes(views):
    message = email.message.EmailMessage()
    message.set_content("free pills")
    classifier = MailClassifier(views=views)
    with pytest.raises(TypeError, match=r"not EmailMessage; pass its as_bytes\(\)"):
        classifier.learn_one(message, "spam")
    classifier.learn_one(message.as_bytes(), "spam")
