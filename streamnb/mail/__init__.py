"""E-mail: bytes to header fields and decoded text parts.

`parse` never raises and takes linear time. `Mail.defects` lists what is wrong with a message, which
limits it exceeds and what could not be read. `FIELD_NAME` and `unwrap` define what a header field is
and where a message begins, for all code that reads headers.
"""

from streamnb.mail.parse import FIELD_NAME, Limits, Mail, Part, parse, unwrap

__all__ = ["FIELD_NAME", "Limits", "Mail", "Part", "parse", "unwrap"]
