"""E-mail: bytes to header fields and decoded text parts.

`parse` never raises and takes time linear in the bytes; what is wrong with a message, and which
bound it crossed, is recorded in `Mail.defects`.
"""

from streamnb.mail.parse import Limits, Mail, Part, parse

__all__ = ["Limits", "Mail", "Part", "parse"]
