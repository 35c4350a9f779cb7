"""The content of opaque S/MIME signatures, which mail programs show to readers."""

from __future__ import annotations

# The object identifier of data in a signature (RFC 5652, 4).
_DATA = bytes.fromhex("06092a864886f70d010701")
_OCTETS, _CHUNKED_OCTETS, _EXPLICIT = 0x04, 0x24, 0xA0  # tags of BER
_UNTIL_END = 0x80  # a length that an end mark replaces


def signed_content(data: bytes) -> bytes:
    """Return the signed content of a PKCS #7 file; b"" without one, such as encrypted data.

    Examples
    --------
    >>> content = b"Content-Type: text/plain" + 2 * bytes.fromhex("0d0a")
    >>> octets = bytes((0x04, len(content))) + content
    >>> signed_content(_DATA + bytes((0xA0, len(octets))) + octets) == content
    True
    """
    position = data.find(_DATA) + len(_DATA)
    if position < len(_DATA) or data[position : position + 1] != bytes((_EXPLICIT,)):
        return b""
    chunks = []
    while position + 2 <= len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size > _UNTIL_END:  # the number of bytes of the length
            position += size - _UNTIL_END
            size = int.from_bytes(data[position - size + _UNTIL_END : position], "big")
        if tag == _OCTETS:
            chunks.append(data[position : position + size])
            position += size
        elif chunks or tag not in (_EXPLICIT, _CHUNKED_OCTETS):
            break
    return b"".join(chunks)
