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
    path, content = certificate, "certificate"
    try:
        ssl.create_default_context(cafile=certificate)  # the next call does not name the file
        path, content = f"{key}, for {certificate}", "private key without a passphrase"
        # without a password, OpenSSL would ask for it at a terminal
        context.load_cert_chain(certificate, key, password=lambda: "")
    except OSError as error:
        reason = error.strerror
        if isinstance(error, ssl.SSLError):
            reason = f"it contains no {content} (PEM)"
            if path != certificate and error.reason not in (None, "PEM_LIB"):
                reason = error.reason.replace("_", " ").lower()  # for example, another key
        raise ConfigError(f"{path}: cannot be used: {reason}") from None
    return context
