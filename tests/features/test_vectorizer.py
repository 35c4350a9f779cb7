"""Tokenizers as scikit-learn transformers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import streamnb
import streamnb.sklearn
from streamnb.features.grams import ByteGrams, CharacterGrams, WordPairs
from streamnb.features.words import CallableTokenizer

TOKENIZERS = {
    "Tokenizer": streamnb.Tokenizer,
    "MailTokenizer": streamnb.MailTokenizer,
    "WordPairs": WordPairs,
    "ByteGrams": ByteGrams,
}
TEXTS = ["free offer now", "lunch at noon", "free lunch", "offer ends now", "", "free free"]
LABELS = ["spam", "ham", "ham", "spam", "ham", "spam"]
by_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)


@pytest.mark.parametrize("make", [*TOKENIZERS.values(), CharacterGrams])
def test_matrix_has_the_counts_of_transform_one(make):
    tokenizer, texts = make(), [*TEXTS, "两次 lunch"]
    matrix = tokenizer.fit_transform(texts)
    names = tokenizer.get_feature_names_out()
    assert sparse.issparse(matrix)
    assert matrix.format == "csr"
    assert matrix.shape == (len(texts), len(names))
    assert (tokenizer.fit(texts).transform(texts) != matrix).nnz == 0
    for row, text in zip(matrix.toarray(), texts, strict=True):
        counts = {name: count for name, count in zip(names, row, strict=True) if count}
        assert counts == tokenizer.transform_one(text)
    assert sorted(names) == list(names)
    assert tokenizer.vocabulary_ == {name: column for column, name in enumerate(names)}


def test_counts_are_those_of_scikit_learn():
    reference = CountVectorizer(analyzer=str.split)
    expected = reference.fit_transform(TEXTS)
    tokenizer = streamnb.Tokenizer()
    assert (tokenizer.fit_transform(TEXTS) != expected).nnz == 0
    assert (tokenizer.get_feature_names_out() == reference.get_feature_names_out()).all()


@by_tokenizer
def test_new_tokens_get_no_column(name):
    tokenizer = TOKENIZERS[name]().fit(TEXTS[:1])
    matrix = tokenizer.transform(["quite different words", *TEXTS[:1]])
    assert matrix.shape[1] == len(tokenizer.get_feature_names_out())
    assert matrix[1].nnz == matrix.shape[1]


@by_tokenizer
def test_parameters_cloning_and_pickling(name):
    tokenizer = TOKENIZERS[name]().fit(TEXTS)
    assert set(tokenizer.get_params()) == set(type(tokenizer).parameter_table)
    same = pickle.loads(pickle.dumps(tokenizer))
    assert (same.transform(TEXTS) != tokenizer.transform(TEXTS)).nnz == 0
    fresh = clone(tokenizer)
    assert fresh.get_params() == tokenizer.get_params()
    with pytest.raises(NotFittedError, match="call fit first"):
        fresh.transform(TEXTS)
    with pytest.raises(ValueError, match=f"a {name} has no parameter 'nonsense'"):
        tokenizer.set_params(nonsense=1)


@by_tokenizer
def test_pipelines_and_grid_searches(name):
    pipeline = make_pipeline(TOKENIZERS[name](), LogisticRegression(C=100))
    assert pipeline.fit(TEXTS, LABELS).predict(TEXTS[:2]).tolist() == LABELS[:2]
    union = make_union(TOKENIZERS[name](), streamnb.Tokenizer(analyzer="char", ngrams=(2, 2)))
    assert union.fit_transform(TEXTS).shape == (6, len(union.get_feature_names_out()))


def test_a_grid_search_tries_tokenizers():
    pipeline = make_pipeline(streamnb.Tokenizer(), streamnb.sklearn.MultinomialNB())
    grid = {"tokenizer__ngrams": [(1, 1), (1, 2)], "multinomialnb__alpha": [0.1, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert set(search.best_params_) == set(grid)


def test_inputs():
    expected = streamnb.Tokenizer().fit_transform(TEXTS)
    column = np.array(TEXTS, dtype=object).reshape(-1, 1)
    frame = pd.DataFrame({"text": TEXTS, "n": range(6)})
    for tokenizer, texts in [
        (streamnb.Tokenizer(), column),
        (streamnb.Tokenizer(), frame["text"]),
        (streamnb.Tokenizer(), frame[["text"]]),
        (streamnb.Tokenizer(), iter(TEXTS)),
        (streamnb.Tokenizer(on="text"), frame),
        (streamnb.Tokenizer(on="text"), frame.to_dict("records")),
    ]:
        assert (tokenizer.fit_transform(texts) != expected).nnz == 0
    for wrong, message in [
        ("one text", "pass a list of texts"),
        ([], "0 samples"),
        ([1.0, 2.0], "takes texts"),
        (["a", None], "row 1: None is not a text"),
    ]:
        with pytest.raises(ValueError, match=message):
            streamnb.Tokenizer().fit(wrong)


FRAME = pd.DataFrame(
    {"title": ["free offer", "lunch", "free lunch"], "size": [1.0, 2.0, 3.0]}, index=[7, 9, 11]
)


def test_frames_of_sparse_columns_are_returned_on_request():
    tokenizer = streamnb.Tokenizer(ngrams=(1, 2)).set_output(transform="pandas")
    frame = clone(tokenizer).fit_transform(FRAME["title"])
    assert frame.index.tolist() == [7, 9, 11]
    assert frame.columns.tolist() == ["free", "free lunch", "free offer", "lunch", "offer"]
    assert all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes)
    matrix = tokenizer.set_output(transform="default").fit_transform(FRAME["title"])
    assert (frame.to_numpy() == matrix.toarray()).all()
    assert tokenizer.set_output() is tokenizer
    dense = tokenizer.set_output(transform="polars").transform(FRAME["title"])
    assert dense.columns == frame.columns.tolist()
    assert (dense.to_numpy() == matrix.toarray()).all()
    with pytest.raises(ValueError, match="'arrow' is not 'default', 'pandas' or 'polars'"):
        tokenizer.set_output(transform="arrow")
    numbers = CallableTokenizer(lambda _: [1, "1"]).set_output(transform="polars")
    with pytest.raises(ValueError, match="two tokens have the same text"):
        numbers.fit_transform(["a"])


def test_tokens_are_returned_for_the_columns_of_a_matrix():
    tokenizer = streamnb.Tokenizer()
    matrix = tokenizer.fit_transform(FRAME["title"])
    for form in (matrix, matrix.toarray()):
        assert [set(tokens) for tokens in tokenizer.inverse_transform(form)] == [
            {"free", "offer"},
            {"lunch"},
            {"free", "lunch"},
        ]
    with pytest.raises(ValueError, match="X has 2 columns; expected 3"):
        tokenizer.inverse_transform(matrix[:, :2])


def test_pipelines_and_column_transformers_set_the_output():
    columns = make_column_transformer((streamnb.Tokenizer(), "title"), (StandardScaler(), ["size"]))
    frame = columns.set_output(transform="pandas").fit_transform(FRAME)
    assert frame.columns.tolist() == [
        "tokenizer__free",
        "tokenizer__lunch",
        "tokenizer__offer",
        "standardscaler__size",
    ]
    assert frame.index.tolist() == [7, 9, 11]
    pipeline = make_pipeline(streamnb.Tokenizer(), streamnb.sklearn.MultinomialNB()).set_output(
        transform="pandas"
    )
    assert list(pipeline.fit(FRAME["title"], ["a", "b", "b"]).predict(["offer"])) == ["a"]
    assert pipeline[-1].feature_names_in_.tolist() == ["free", "lunch", "offer"]


@pytest.mark.parametrize("method", ["fit", "fit_transform", "transform_many"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@by_tokenizer
def test_a_frame_without_the_column_is_an_error_with_its_columns(name, make, method):
    with pytest.raises(ValueError, match="no column 'body'; it has 'text', 'label'"):
        getattr(TOKENIZERS[name](on="body"), method)(make({"text": TEXTS, "label": LABELS}))
