"""Limits that readers of messages share. Every client loads this module: it imports nothing."""

# Maximum bytes of a message, after decompression, which is more than mail servers accept. A longer
# message is cut. The digest of a message covers all these bytes; the parser reads fewer.
MAX_MESSAGE = 1 << 26
