"""Several streams as one: ranking by the default, and by another configuration.

    python tests/benchmarks/mixtures.py STREAM STREAM ... [--beside configs/two-views.yaml]

The combined streams are each pair of streams, and all streams: one after the other (in both orders), and
mixed in proportion. The second half of each stream is another stream. Each message is classified, then learned.
Prints (1-ROCA)%, accuracy, and geometric means.
"""

import argparse
import itertools
import math
from pathlib import Path

import numpy as np
import yaml
from views import prequential

from streamnb import MailClassifier
from streamnb.corpus import open_corpus, read


def by_turns(streams):
    """Mix streams: message i of n of each stream has the position i / n."""
    placed = [
        (i / len(values), k, i) for k, values in enumerate(streams) for i in range(len(values))
    ]
    return [streams[k][i] for _, k, i in sorted(placed)]


def arrangements(streams):
    several = [*itertools.combinations(streams, 2)]
    if len(streams) > 2:
        several.append(tuple(streams))
    for names in several:
        parts = [streams[name] for name in names]
        yield ", then ".join(names), list(itertools.chain(*parts))
        yield ", then ".join(reversed(names)), list(itertools.chain(*reversed(parts)))
        yield " by turns with ".join(names), by_turns(parts)
    for name, messages in streams.items():
        yield f"second half of {name}", messages[len(messages) // 2 :]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--beside", metavar="FILE", help="a configuration of the model")
    options = parser.parse_args()
    streams = {
        Path(path).name: [(read(entry), entry.label) for entry in open_corpus(path)]
        for path in options.stream
    }
    settings = [{}]
    if options.beside:
        settings.append(yaml.safe_load(Path(options.beside).read_text(encoding="utf-8"))["model"])
    heads = ["default", *([Path(options.beside).stem] if options.beside else [])]
    print(f"| streams | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    result = []
    for name, messages in arrangements(streams):
        row = [
            prequential(MailClassifier(keep_names=False, **chosen), messages)[:2]
            for chosen in settings
        ]
        result.append(row)
        cells = [f"{roca:.3f}, {accuracy:.2f} %" for roca, accuracy in row]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    means = [
        math.exp(np.mean([math.log(max(row[i][0], 1e-4)) for row in result]))
        for i in range(len(settings))
    ]
    print(f"| geometric mean | {' | '.join(f'{mean:.4f}' for mean in means)} |")


if __name__ == "__main__":
    main()
