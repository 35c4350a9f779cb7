"""The digest of a message and the tokens of its text do not depend on its hops."""

from hops import ENCODERS, HOPS, LINE_ENDS, compose, send
from hypothesis import given
from hypothesis import strategies as st

from streamnb import MailTokenizer
from streamnb.mailbox.digest import digest

BODY = MailTokenizer(part="body")
words = st.sampled_from(
    ["lottery", "From", "here", "naïve", "日本語", "=3D", "pills,", "a.b@c", "1,000", "--", "."]
)
lines = st.lists(words, min_size=1, max_size=6).map(" ".join)
uuencoded_file = st.just("begin 644 a=b.txt\n):&5L;&\\@>3T]\n`\nend")
texts = st.lists(st.one_of(lines, st.just(""), uuencoded_file), min_size=1, max_size=8).map(
    lambda middle: "\n".join(["Hello", *middle, "Bye"]).encode() + b"\n"
)
subjects = st.lists(
    st.sampled_from([b"Re:", b"hello", b"=?utf-8?q?caf=C3=A9?=", b"x=y", b"[list]"]),
    min_size=1,
    max_size=5,
).map(b" ".join)
leaves = st.lists(st.tuples(st.sampled_from([b"plain", b"html"]), texts), min_size=1, max_size=3)
FIELDS = [(b"From", b"Ann Example <ann@example.org>"), (b"Date", b"Mon, 1 Jan 2024 00:00:00 +0000")]
hops = st.lists(st.tuples(st.integers(0, len(HOPS) - 1), st.integers(0, 63)), max_size=6)


@given(
    subjects, leaves, st.booleans(), st.sampled_from(sorted(ENCODERS)), hops,
    st.integers(0, len(LINE_ENDS) - 1),
)  # fmt: skip
def test_digest_and_tokens_do_not_depend_on_the_route(
    subject, parts, has_id, encoding, actions, line_end
):
    fields = [*FIELDS, (b"Subject", subject)]
    if has_id:
        fields.append((b"Message-ID", b"<1@example.org>"))
    original = compose((fields, parts))
    received = send((fields, parts), encoding, actions, line_end)
    assert digest(received) == digest(original)
    assert BODY.transform_one(received) == BODY.transform_one(original)
    assert MailTokenizer().transform_one(received)["from:ann"] == 1
