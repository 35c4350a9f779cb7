"""Limits that readers of messages share, in a module without imports: every client loads it."""

# Bytes of a message that are read, decompressed: more than mail servers accept. The identity of a
# message covers them all; the parser reads less. A longer message is cut.
MAX_MESSAGE = 1 << 26
