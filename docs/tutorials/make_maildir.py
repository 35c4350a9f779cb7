"""Make a Maildir of the sample corpus: 200 sorted messages, or the next N new ones.

python3 docs/tutorials/make_maildir.py Maildir            # make the Maildir
python3 docs/tutorials/make_maildir.py Maildir --new 50   # deliver 50 messages to the inbox
"""

import argparse
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
SORTED = 200


def main() -> None:
    """Read the options and write the messages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("maildir", type=Path)
    parser.add_argument("--new", type=int, default=0, metavar="N", help="deliver N messages")
    options = parser.parse_args()
    inbox, junk = options.maildir, options.maildir / ".Junk"
    for folder in (inbox, junk):
        for part in ("cur", "new", "tmp"):
            (folder / part).mkdir(parents=True, exist_ok=True)
    lines = [line.split() for line in (SAMPLE / "index").read_text().splitlines()]
    count_file = options.maildir / "sample-messages"
    start = int(count_file.read_text()) if options.new else 0
    end = start + (options.new or SORTED)
    for label, name in lines[start:end]:
        message = (SAMPLE / name).read_bytes()
        if options.new:
            (inbox / "new" / Path(name).stem).write_bytes(message)
        else:
            folder = junk if label == "spam" else inbox
            (folder / "cur" / f"{Path(name).stem}:2,S").write_bytes(message)
    count_file.write_text(str(end))
    print(f"{options.maildir}: {len(lines[start:end])} messages")


if __name__ == "__main__":
    main()
