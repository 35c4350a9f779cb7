"""A user's first mails, with and without the site's model.

    python tests/benchmarks/users.py FOLDER... [--site FOLDER...] [--first 200] [--seeds 5]

Each FOLDER (with an `index`, like the TREC corpora) is a user. The site learns 1,500 messages of each other
FOLDER and of those of --site. Prints the errors among the user's first messages, each classified before it is
learned.
"""

import argparse
import random
import tempfile
from pathlib import Path

from streamnb import Mailbox, MailClassifier
from streamnb.mailbox.site_model import SiteModel


def stream(folder: Path) -> list[tuple[Path, str]]:
    index = folder / "index"
    if index.exists():
        pairs = (line.split()[:2] for line in index.read_text().splitlines())
        return [(folder / file, label) for label, file in pairs]
    labels = (path for path in sorted(folder.iterdir()) if path.is_dir())
    return [(file, values.name) for values in labels for file in sorted(values.iterdir())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--site", nargs="*", type=Path, default=[])
    parser.add_argument("--first", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    total = {"alone": 0, "site": 0, "both": 0}
    for user in chosen.folders:
        draw = random.Random(1)
        lessons = []
        for other in (*chosen.folders, *chosen.site):
            if other != user:
                messages = stream(other)
                draw.shuffle(messages)
                lessons += messages[:1500]
        draw.shuffle(lessons)
        classifier = MailClassifier()
        for file, label in lessons:
            classifier.learn_one(file.read_bytes(), label)
        with tempfile.TemporaryDirectory() as name:
            classifier.save(f"{name}/site.snb")
            base = SiteModel(f"{name}/site.snb")
            wrong = dict.fromkeys(total, 0)
            for seed in range(chosen.seeds):
                messages = stream(user)
                random.Random(seed).shuffle(messages)
                with (
                    Mailbox(f"{name}/alone{seed}.db") as alone,
                    Mailbox(f"{name}/both{seed}.db", base=base) as pair,
                ):
                    for file, label in messages[: chosen.first]:
                        message = file.read_bytes()
                        answer = {
                            "alone": alone.classify(message).label,
                            "site": classifier.predict_one(message),
                            "both": pair.classify(message).label,
                        }
                        for way, kind in answer.items():
                            wrong[way] += kind != label
                        alone.learn(message, label)
                        pair.learn(message, label)
        for way, number in wrong.items():
            total[way] += number
        print(
            f"{user.name}: {chosen.seeds} times the first {chosen.first}: errors {wrong}",
            flush=True,
        )
    print(f"all: {total}, {total['both'] / total['alone']:.2f} of those alone")


if __name__ == "__main__":
    main()
