"""The certificate of a listener for STARTTLS, read again after it was renewed."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from streamnb.errors import ConfigError
from streamnb.mailbox.watched_file import WatchedFile, file_state


def watch_certificate(
    certificate: str, key: str, warn: Callable[[str], None]
) -> WatchedFile[ssl.SSLContext]:
    """Return the context for TLS with a certificate and its key, each a path of a PEM file.

    Raises
    ------
    ConfigError
        If they cannot be used.
    """
    return WatchedFile(
        certificate,
        lambda path: _read_certificate(path, key),
        warn,
        lambda path: (*file_state(path), *file_state(key)),
    )


def _read_certificate(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        plain = error.strerror if not isinstance(error, ssl.SSLError) else None
        reason = plain or "they are not a certificate and its key"
        raise ConfigError(f"{certificate}, {key}: cannot be used: {reason}") from None
    return context
