"""E-mail: parsing of bytes into header fields and decoded text parts.

`parse` never raises and takes linear time. `Mail.defects` lists damage, exceeded limits and parts
that could not be read. `FIELD_NAME` and `unwrap` define a header field and the start of a message.
All code that reads headers uses them.
"""

from streamnb.header_fields import FIELD_NAME
from streamnb.mail.message import Mail, Part
from streamnb.mail.parse import Limits, parse
from streamnb.mail.unwrap import unwrap

__all__ = ["FIELD_NAME", "Limits", "Mail", "Part", "parse", "unwrap"]
