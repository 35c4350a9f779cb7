"""Classes that overlap: pieces of a few words, most of which could come from another newsgroup.

    python tests/benchmarks/overlap.py FOLDER [--most 6000] [--seeds 1 2]

FOLDER has a folder of posts for each newsgroup (20 Newsgroups). All labels are correct, but no reader could
classify all pieces. So a model should give probabilities near one half, and not trust its own predictions
more than the labels. Prints accuracy, log loss and expected calibration error after the first 1,000 pieces,
and that error of the last third: prequential, the means over the seeds.
"""

import argparse
import random
import re
from pathlib import Path

import numpy as np
import river.naive_bayes

from streamnb import Classifier, MultinomialNB, TextClassifier, Tokenizer
from streamnb.evaluate import Example, RunningMetrics, prequential

PAIRS = [
    ("alt.atheism", "soc.religion.christian", 5),
    ("comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware", 5),
    ("comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware", 12),
    ("talk.politics.guns", "talk.politics.misc", 3),
    ("sci.med", "sci.space", 4),
    # No constant was chosen on these newsgroups.
    ("rec.autos", "rec.motorcycles", 4),
    ("talk.religion.misc", "soc.religion.christian", 8),
    ("sci.crypt", "sci.electronics", "sci.med", "sci.space", 4),
]
WARM = 1000


class River:
    """river's multinomial model of the same words."""

    def __init__(self):
        self.words = Tokenizer()
        self.model = river.naive_bayes.MultinomialNB()

    def learn_one(self, text, label):
        self.model.learn_one(self.words.transform_one(text), label)

    def predict_proba_one(self, text):
        return self.model.predict_proba_one(self.words.transform_one(text))


MODELS = {
    "default": TextClassifier,
    "label noise not estimated (0)": lambda: TextClassifier(label_noise=0),
    "multinomial": lambda: Classifier(Tokenizer(), MultinomialNB()),
    "river's `MultinomialNB`": River,
}


def pieces(folder, size, most, seed):
    """Return shuffled pieces of a number of words from the posts of a newsgroup."""
    result = []
    for path in sorted(folder.iterdir()):
        text = path.read_text("utf-8", errors="replace").partition("\n\n")[2]
        words = re.findall(r"[A-Za-z']+", text)
        result += [" ".join(words[i : i + size]) for i in range(0, len(words) - size + 1, size)]
    random.Random(seed).shuffle(result)
    return result[:most]


def figures(model, stream):
    whole, last = RunningMetrics(), RunningMetrics()
    for number, step in enumerate(prequential(stream, model)):
        if number >= WARM:
            whole.record(step)
        if number >= WARM + (len(stream) - WARM) * 2 // 3:
            last.record(step)
    summary = whole.summary(with_intervals=False)
    late = last.summary(with_intervals=False).expected_calibration_error
    return (100 * summary.accuracy, summary.log_loss, summary.expected_calibration_error, late)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=6000, help="pieces of a stream")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    chosen = parser.parse_args()
    if chosen.most < 2 * WARM:
        parser.error(f"--most: {2 * WARM} at least")
    print(f"| classes, words | {' | '.join(MODELS)} |\n|{'---|' * (1 + len(MODELS))}")
    for *groups, size in PAIRS:
        cells = []
        for make in MODELS.values():
            result = []
            for seed in chosen.seeds:
                stream = [
                    Example(text, group)
                    for group in groups
                    for text in pieces(
                        chosen.folder / group, size, chosen.most // len(groups), seed
                    )
                ]
                random.Random(seed).shuffle(stream)
                result.append(figures(make(), stream))
            accuracy, loss, error, late = np.mean(result, axis=0)
            cells.append(f"{accuracy:.1f} %, {loss:.3f}, {error:.3f}, {late:.3f}")
        print(f"| {', '.join(groups)}, {size} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
