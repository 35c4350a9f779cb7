"""What can go wrong, said in one line.

Each error names the file, line or key it is about and what to do; the command line prints it and
exits with its code. Programming errors (a wrong type, a bad value given to a model) are the
ordinary `TypeError` and `ValueError`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "BusyError",
    "ConfigError",
    "CorpusError",
    "MailCopyError",
    "MailRefusedError",
    "MailServerError",
    "ModelFileError",
    "OutputError",
    "StateError",
    "StreamNBError",
    "UnexpectedError",
    "describe_os_error",
    "printable",
    "abbreviate",
    "error_text",
]

# Control characters, line ends of Unicode, and what turns the direction of writing.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text on one line, without what a terminal might obey."""
    return _UNPRINTABLE.sub("?", text)


def abbreviate(text: object, most: int = 28) -> str:
    """A name as a table or a picture can hold it: printable, and not too long."""
    line = printable(str(text)).encode("utf-8", "replace").decode()
    return line if len(line) <= most else f"{line[: most - 1]}…"


class StreamNBError(Exception):
    """Any failure whose cause lies outside the program.

    Examples
    --------
    >>> from streamnb.errors import CorpusError, StreamNBError
    >>> try:
    ...     raise CorpusError("inbox/17: cannot be read: permission denied")
    ... except StreamNBError as error:
    ...     print(error.exit_code, error)
    3 inbox/17: cannot be read: permission denied
    """

    exit_code = 1


class ConfigError(StreamNBError):
    """A configuration that is wrong, with the key's path."""

    exit_code = 2


class CorpusError(StreamNBError):
    """A corpus, or a message of it, that cannot be read."""

    exit_code = 3


class ModelFileError(StreamNBError):
    """A model file that is missing, corrupted or not one of ours."""

    exit_code = 4


class OutputError(StreamNBError):
    """A place where results cannot be written."""

    exit_code = 5


class StateError(StreamNBError):
    """A database that is missing, corrupted or not one of ours."""

    exit_code = 4


class MailServerError(StreamNBError):
    """A mail server that cannot be reached, or refuses."""

    exit_code = 6


class MailRefusedError(MailServerError):
    """A mail server that says no to one thing, and goes on."""


class MailCopyError(MailRefusedError):
    """A copy of a message that cannot be found again; it is not to be made once more."""


class BusyError(StreamNBError):
    """Something that another process holds, or that will work later; mail programs try again."""

    exit_code = 75


# Of descriptors, of processes, of memory.
LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


def describe_os_error(error: OSError) -> str:
    """What failed and why: the file that is named, or else the output or the machine."""
    if error.filename is not None:
        what = error.filename
    elif error.errno in LIMITS:
        what = "the system gives no more"
    else:
        what = "standard output: cannot be written"
    return printable(f"{what}: {error.strerror}")


def root_cause(error: BaseException) -> str:
    """Why something failed, in the words of the system where it was the system's doing."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def convert_os_errors(
    kind: type[StreamNBError], what: str, *others: type[Exception]
) -> Iterator[None]:
    """Turn what the system refuses, and these other errors, into one of ours.

    Examples
    --------
    >>> with convert_os_errors(CorpusError, "inbox/17: cannot be read"):
    ...     raise FileNotFoundError(2, "No such file or directory", "inbox/17")
    Traceback (most recent call last):
        ...
    streamnb.errors.CorpusError: inbox/17: cannot be read: No such file or directory
    """
    caught: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except caught as error:
        raise kind(f"{what}: {root_cause(error)}") from None


@contextmanager
def require_extra(
    extra: str, what: str = "{} is missing", kind: type[StreamNBError] = ConfigError
) -> Iterator[None]:
    """Say which extra brings what cannot be imported; `{}` stands for its name."""
    try:
        yield
    except ImportError as error:
        said = what.replace("{}", str(error.name or error))
        raise kind(f"{said}: pip install 'streamnb[{extra}]'") from None


def corrupted(path: object, what: str) -> StateError:
    """Of a database: what it holds is not sound."""
    return StateError(
        f"{path}: the database is corrupted: {what}; restore it from a backup, or see "
        "`streamnb recover`"
    )


def error_text(error: BaseException) -> str:
    """What an error says; of a library that cannot be loaded, what its own library says."""
    while isinstance(error, ImportError) and error.__cause__ is not None:
        error = error.__cause__
    said = printable(str(error) or type(error).__name__)
    return said if isinstance(error, StreamNBError) else said[:200]


class UnexpectedError(StreamNBError):
    """A fault of the program itself; STREAMNB_TRACEBACK=1 shows where."""

    exit_code = 70

    def __init__(self, error: BaseException, exit_code: int = 70) -> None:
        if isinstance(error, ImportError):
            super().__init__(
                f"a library cannot be loaded, perhaps for want of memory: {error_text(error)}"
            )
        else:
            super().__init__(
                f"this should not have happened ({type(error).__name__}: {error!s:.200}); please "
                "report it with what STREAMNB_TRACEBACK=1 shows"
            )
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        return _told, (str(self), self.exit_code)  # the exception itself may be of any kind


def _told(message: str, exit_code: int) -> UnexpectedError:
    """What another process could not explain."""
    error = UnexpectedError.__new__(UnexpectedError)
    Exception.__init__(error, message)
    error.exit_code = exit_code
    return error
