"""Limits for all readers of messages. Every client loads this module, so it imports nothing."""

# Maximum bytes of a message after decompression: more than mail servers accept. A longer message is
# truncated. The digest covers all these bytes; the parser reads fewer.
MAX_MESSAGE = 1 << 26
