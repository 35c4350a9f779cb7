"""scikit-learn estimators of every model: matrices of counts, tables and raw texts.

Each estimator has the name and the parameters of the model in `streamnb` that it wraps. A fitted
estimator has that model as `model_`. scikit-learn is an extra (`pip install
streamnb[sklearn]`). The tokenizers of `streamnb` are scikit-learn transformers themselves.

- Counts or texts: `MultinomialNB`, `BernoulliNB`, `ComplementNB`, `DiscriminativeMultinomialNB`.
- Tables: `GaussianNB`, `CategoricalNB`, `MixedNB`, `AODE`, `GaussianDiscriminantAnalysis`,
  `LazyBayesianRules`.
- Texts: `TextClassifier`, `MailClassifier`.

The last two contain a `ViewsNB`. `WindowNB` has no estimator, because a window of the last examples
has no meaning in shuffled folds.
"""

from streamnb.sklearn.counts import (
    BernoulliNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
)
from streamnb.sklearn.tables import (
    AODE,
    CategoricalNB,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LazyBayesianRules,
    MixedNB,
)
from streamnb.sklearn.texts import MailClassifier, TextClassifier

__all__ = [
    "AODE",
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "DiscriminativeMultinomialNB",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "LazyBayesianRules",
    "MailClassifier",
    "MixedNB",
    "MultinomialNB",
    "TextClassifier",
]
