"""Random streams of messages with labels, for tests of models."""

from hypothesis import strategies as st

WORDS = ["a", "b", "c", "d", "e", "f"]
messages = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 3), max_size=5)
labels = st.sampled_from(["ham", "spam", "list"])
streams = st.lists(st.tuples(messages, labels), max_size=25)
