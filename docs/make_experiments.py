"""Write reference/experiments.md from the keys of the code: python docs/make_experiments.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamnb.config import experiment
from streamnb.config.sections import _REQUIRED, Section

PAGE = Path(__file__).parent / "reference" / "experiments.md"
HEAD = """# Experiments

A YAML file configures `streamnb experiment`. `--set KEY=VALUE` changes a key, such as
`--set splits.kind=stratified`.
`docs/make_experiments.py` writes this page from the code.

```yaml
data:
  kind: table
  path: corpora/tables/wheat_seeds.csv
  label: variety
models:
  gaussian: {kind: gaussian, ddof: 1}
  scikit-learn: {kind: scikit-learn, estimator: GaussianNB}
splits: {kind: stratified, test: [0.1, 0.3], trials: 200, seed: 1}
queries:
  - {area: 15.3, perimeter: 14.8, compactness: 0.87, length: 5.8, width: 3.3,
     asym_coeff: 2.2, groove_len: 5.2}
```

| section | content |
|---|---|
| `data` | the table; `kind` is required |
| `models` | a name for each model, with its `kind` and its parameters; the default is `gaussian` |
| `splits` | how rows are split into a part to learn and a part to test; the default is `random` |
| `queries` | rows to classify after all rows were learned: columns and their values |
"""
MEANINGS = {
    "path": "a file, a list of files with one header, or `-` for standard input; relative to the "
    "YAML file",
    "label": "the column of the classes; null for the last column",
    "columns": "the features; null for all other columns",
    "text": "columns to read as text even if they are numbers",
    "transposed": "whether each column of the file is an example",
    "delimiter": "one character; null detects it",
    "header": "whether the first row has names; null detects it; without names, columns are called "
    "1, 2, ...",
    "decimal": '`"."` or `","`; null detects it',
    "missing": "spellings of missing values; null for those of `pandas.read_csv`, and `?`",
    "classes": "a list of classes: leave out all other rows; null for all classes",
    "scale": "`none`; or `min-max`, which maps all numbers so that the smallest one in the rows to "
    "learn becomes 0 and the largest one 1. Only for tables of numbers, without `bins`, not for "
    "`prequential`",
    "bins": "from 2 to 1,000: replace the numbers of each column by this many levels, which have "
    "about equally many rows to learn. null keeps the numbers. Not for `prequential`",
    "images": "files of images, compressed or not",
    "labels": "the files of their labels",
    "name": "`digits`, `iris`, `wine` or `breast_cancer`",
    "estimator": "class of scikit-learn: `GaussianNB`, `BernoulliNB`, `MultinomialNB`, "
    "`LinearDiscriminantAnalysis` or `QuadraticDiscriminantAnalysis`",
    "parameters": "the estimator's parameters, by name",
    "test": "share of the rows to test, a list of shares, or "
    "`{first: 0.01, last: 0.98, steps: 100}` for 100 shares at equal distances",
    "trials": "number of random splits, or a list of numbers, such as `[100, 500]`",
    "prequential.trials": "number of random orders",
    "seed": "seed of the random numbers",
}
TITLES = {
    "data": (experiment.TableConfig, experiment.IdxConfig, experiment.BundledConfig),
    "splits": (
        experiment.RandomConfig,
        experiment.StratifiedConfig,
        experiment.PrequentialConfig,
        experiment.NoSplitsConfig,
    ),
}


def spell_default(value: Any) -> str:
    """Return a default as YAML has it; "required" if there is none."""
    if value is _REQUIRED:
        return "required"
    if value is None or isinstance(value, bool):
        return f"`{'null' if value is None else str(value).lower()}`"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def format_keys(section: type[Section]) -> Iterator[str]:
    """Yield the lines of a table of the keys of a section."""
    yield "| key | default | meaning |\n|---|---|---|"
    kind = section.declared_keys["kind"].default
    for name, key in section.declared_keys.items():
        if name != "kind":
            meaning = MEANINGS.get(f"{kind}.{name}") or MEANINGS[name]
            yield f"| `{name}` | {spell_default(key.default)} | {meaning} |"
    yield ""


def page() -> str:
    """Return the page as Markdown."""
    lines = [HEAD]
    for title, sections in TITLES.items():
        lines.append(f"## `{title}`\n")
        for section in sections:
            lines += [f"### `{title}.kind: {section.declared_keys['kind'].default}`\n"]
            lines += [f"{section.__doc__}\n"]
            if set(section.declared_keys) != {"kind"}:
                lines += format_keys(section)
    lines += ["## `models`\n", "| `kind` | parameters |\n|---|---|"]
    for section in experiment.MODEL_SECTIONS:
        kind, name = section.declared_keys["kind"].default, section.model_class.__name__
        lines.append(f"| `{kind}` | [`{name}`](parameters.md#{name.lower()}) |")
    lines += ["| `scikit-learn` | the keys below |", "", "### `kind: scikit-learn`\n"]
    lines += [f"{experiment.ScikitConfig.__doc__}\n", *format_keys(experiment.ScikitConfig)]
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
