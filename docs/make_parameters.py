"""Write reference/parameters.md from the classes' own tables: python docs/make_parameters.py."""

from pathlib import Path

import streamnb
from streamnb.features.byte_grams import ByteGrams

PAGE = Path(__file__).parent / "reference" / "parameters.md"
HEAD = """# Parameters

Made by `docs/make_parameters.py` from the tables that the classes themselves are made of. A
parameter's role says what it decides: *formula*, worked out when asked, which can change at any
time; *teaching*, what is learned of a message depends on it; *counts*, what is
counted, which is settled once something was learned.
"""
CLASSES = [
    streamnb.MailClassifier,
    streamnb.TextClassifier,
    streamnb.Classifier,
    streamnb.MultinomialNB,
    streamnb.BernoulliNB,
    streamnb.ComplementNB,
    streamnb.DiscriminativeMultinomialNB,
    streamnb.ViewsNB,
    streamnb.WindowNB,
    streamnb.Tokenizer,
    streamnb.MailTokenizer,
    ByteGrams,
    streamnb.GaussianNB,
    streamnb.CategoricalNB,
    streamnb.MixedNB,
    streamnb.GaussianDiscriminantAnalysis,
    streamnb.AODE,
    streamnb.LazyBayesianRules,
]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for made in CLASSES:
        lines += [
            f"## {made.__name__}",
            "",
            "| parameter | default | role | |",
            "|---|---|---|---|",
        ]
        for name, known in made._table.items():
            text = known.help.replace("|", "\\|")
            lines.append(f"| `{name}` | `{known.default!r}` | {known.role} | {text} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
