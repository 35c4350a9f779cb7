"""Feed the mail reader what a coverage-guided fuzzer comes up with (pip install atheris).

    python tests/benchmarks/fuzz_mail.py [--minutes 5]

Begins with the sample mails and the hostile ones of the tests. Each input is parsed, tokenised, given a
digest and passed through; nothing may raise or take long, and what comes out is checked. What is
found is written to crash-*, and belongs into tests/hostile.py.
"""

import argparse
import io
import re
import sys
import tempfile
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["streamnb"]):
    import streamnb.features.byte_grams
    import streamnb.features.mail_words
    import streamnb.mail
    import streamnb.mailbox.digest
    import streamnb.mailbox.service.passthrough
    from streamnb.mailbox.service.answers import Answer, field_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from hostile import hostile, passed_on

ANSWER = Answer("S", 0, 1.0, "spam", 0.9, [])
FIELD = field_of(ANSWER).encode()
WORDS = streamnb.features.mail_words.MailTokenizer()
GRAMS = streamnb.features.byte_grams.ByteGrams()
SLOW = 2.0  # seconds; inputs have at most 64 KiB


def check(data: bytes) -> None:
    begun = time.monotonic()
    mail = streamnb.mail.parse(data)
    for _, value in mail.headers:
        assert isinstance(value, str)
    assert isinstance(mail.text, str)
    words, grams = WORDS.count(mail), GRAMS.count(mail)
    assert (words.counts > 0).all()
    assert (grams.counts > 0).all()
    key = streamnb.mailbox.digest.digest(data)
    target = io.BytesIO()
    trouble = streamnb.mailbox.service.passthrough.pass_through(
        io.BytesIO(data), target, lambda _: ANSWER
    )
    assert trouble is None
    out = target.getvalue()
    assert out == passed_on(data, FIELD)
    # What comes out is the same message, and what comes out of that is it again.
    again = io.BytesIO()
    streamnb.mailbox.service.passthrough.pass_through(io.BytesIO(out), again, lambda _: ANSWER)
    assert again.getvalue() == out
    if re.match(rb"[!-9;-~]+:", data):  # of what has no header, our field makes one
        assert streamnb.mailbox.digest.digest(out) == key
    assert time.monotonic() - begun < SLOW


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(__file__).parents[2] / "corpora" / "sample" / "data"
        seeds = [path.read_bytes() for path in sample.iterdir()]
        for i, seed in enumerate([*seeds, *hostile(large=False).values()]):
            (Path(folder) / str(i)).write_bytes(seed[: 1 << 16])
        options = [f"-max_total_time={int(60 * chosen.minutes)}", "-max_len=65536", "-verbosity=0",
                   "-print_final_stats=1", folder]  # fmt: skip
        atheris.Setup([sys.argv[0], *options], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
