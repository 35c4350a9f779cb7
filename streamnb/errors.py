"""Errors with a cause outside the program. Each has a message of one line.

Every message names the file, line or key at fault, the reason and what to do. The command line
prints it and exits with the error's `exit_code`. Programming errors (a wrong type, a bad value
passed to a model) are ordinary `TypeError` and `ValueError`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from streamnb.patterns import lazy_pattern

# Control characters, Unicode line separators, and characters that change the text direction.
_UNPRINTABLE = lazy_pattern("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MAX_FOREIGN_TEXT = 200  # characters of another library's error message to include


# The paths of temporary copies of standard input and pipes, and the names of the originals.
names_of_copies: dict[str, str] = {}


def printable(text: str) -> str:
    """Return the text on one line; characters that could control a terminal become "?".

    Paths of temporary copies become the names of the originals, such as "standard input".
    """
    for path, name in names_of_copies.items():
        text = text.replace(path, name)
    return _UNPRINTABLE.sub("?", text)


def abbreviate(text: object, max_length: int = 28) -> str:
    """Return a name that fits a table cell or a picture: printable, at most `max_length` long.

    Examples
    --------
    >>> from streamnb.errors import abbreviate
    >>> abbreviate("newsletter", 6)
    'newsl…'
    """
    line = printable(str(text)).encode("utf-8", "replace").decode()
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


def message_count(number: int) -> str:
    """Return a number of messages as text.

    Examples
    --------
    >>> from streamnb.errors import message_count
    >>> message_count(1), message_count(2000)
    ('1 message', '2,000 messages')
    """
    return f"{number:,} message{'' if number == 1 else 's'}"


class StreamNBError(Exception):
    """Base class of all errors with a cause outside the program.

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
    """Wrong configuration; the message names the key."""

    exit_code = 2


class CorpusError(StreamNBError):
    """A corpus, or one of its messages, cannot be read."""

    exit_code = 3


class ModelFileError(StreamNBError):
    """A model file is missing, corrupted or was not written by streamnb."""

    exit_code = 4


class OutputError(StreamNBError):
    """Results cannot be written."""

    exit_code = 5


class StateError(StreamNBError):
    """A database is missing, corrupted or was not written by streamnb."""

    exit_code = 4


class DamagedDatabaseError(StateError):
    """A file is no database, or a damaged one."""


class MailServerError(StreamNBError):
    """A mail server cannot be reached, or refuses the connection."""

    exit_code = 6


class MailRefusedError(MailServerError):
    """A mail server refused one request; the connection stays usable."""


class MailCopyError(MailRefusedError):
    """The copy of a message cannot be found. The message must not be copied again."""


class ListenError(StreamNBError):
    """The server cannot listen on an address."""

    exit_code = 7


class AlreadyRunningError(StreamNBError):
    """Another `streamnb serve` already serves the database."""

    exit_code = 8


class BusyError(StreamNBError):
    """A temporary failure, such as a lock held by another process; mail programs retry later."""

    exit_code = 75


# Error numbers for a lack of file descriptors, processes or memory.
LIMITS = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


def check_paths_differ(paths: Iterable[object], content: str) -> None:
    """Raise ConfigError if two paths are one file or folder, whose content would be added twice."""
    first_paths: dict[str, str] = {}
    for path in map(str, paths):
        target = os.path.realpath(path)
        if target in first_paths:
            alias = f", also as {first_paths[target]}" if first_paths[target] != path else ""
            raise ConfigError(f"{path}: named twice{alias}; its {content} would be added twice")
        first_paths[target] = path


def describe_os_error(error: OSError) -> str:
    """Return "THING: reason"; the thing is a file, standard output or the system."""
    if error.filename is not None:
        thing = error.filename
    elif error.errno in LIMITS:
        thing = "a limit of the system (open files, processes or memory) is reached"
    else:
        thing = "standard output: cannot be written"
    return printable(f"{thing}: {error.strerror}")


def root_cause(error: BaseException) -> str:
    """Return the operating system's reason for an error, or the error's own message."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def convert_os_errors(
    error_class: type[StreamNBError], problem: str, *also_caught: type[Exception]
) -> Iterator[None]:
    """Re-raise `OSError`, and the other classes given, as `error_class("PROBLEM: reason")`.

    Examples
    --------
    >>> with convert_os_errors(CorpusError, "inbox/17: cannot be read"):
    ...     raise FileNotFoundError(2, "No such file or directory", "inbox/17")
    Traceback (most recent call last):
        ...
    streamnb.errors.CorpusError: inbox/17: cannot be read: No such file or directory
    """
    caught: tuple[type[Exception], ...] = (OSError, *also_caught)
    try:
        yield
    except caught as error:
        raise error_class(f"{problem}: {root_cause(error)}") from None


@contextmanager
def require_extra(
    extra: str, problem: str = "{} is missing", error_class: type[StreamNBError] = ConfigError
) -> Iterator[None]:
    """Re-raise `ImportError` with the `pip install` command of the extra that is missing.

    Parameters
    ----------
    extra
        Name of the extra in pyproject.toml.
    problem
        First half of the message. `{}` is replaced by the package that cannot be imported.
    error_class
        Class of the error that is raised.
    """
    try:
        yield
    except ImportError as error:
        module = str(error) if error.name is None else error.name.partition(".")[0]
        message = problem.replace("{}", module)
        raise error_class(f"{message}: pip install 'streamnb[{extra}]'") from None


def damage_error(path: object, problem: str) -> DamagedDatabaseError:
    """Return the error for a database whose content is not consistent."""
    is_file = "://" not in str(path)
    remedy = ", or run `streamnb recover`" if is_file else ""
    return DamagedDatabaseError(
        f"{path}: the database is damaged: {problem}; restore it from a backup or an export{remedy}"
    )


def error_text(error: BaseException) -> str:
    """Return an error's message on one line; messages of other libraries are truncated.

    For a library that cannot be loaded, the message is that of the innermost import.
    """
    while isinstance(error, ImportError) and error.__cause__ is not None:
        error = error.__cause__
    message = printable(str(error) or type(error).__name__)
    return message if isinstance(error, StreamNBError) else message[:_MAX_FOREIGN_TEXT]


class UnexpectedError(StreamNBError):
    """A bug in the program. STREAMNB_TRACEBACK=1 prints the traceback."""

    exit_code: int = 70

    def __init__(self, error: BaseException | str, exit_code: int = 70) -> None:
        text = str(error)  # a text is that of an error from another process: pickles have no cause
        if isinstance(error, ImportError):
            text = f"cannot load a library (is the system out of memory?): {error_text(error)}"
        elif isinstance(error, BaseException):
            text = f"internal error ({type(error).__name__}: {error!s:.200}); please "
            text += "report it with the output of STREAMNB_TRACEBACK=1"
        super().__init__(text)
        self.exit_code = exit_code
