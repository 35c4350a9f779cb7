"""Addresses and listening sockets, opened by this process or passed by systemd."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import math
import os
import resource
import socket
import stat
from collections.abc import Sequence
from typing import NamedTuple

from streamnb.errors import (
    AlreadyRunningError,
    ConfigError,
    ListenError,
    convert_os_errors,
    root_cause,
)

FIRST_PASSED = 3  # descriptor of the first socket from systemd (sd_listen_fds(3))
_MOST_FILES = 8192  # open files; more than all connections and open mailboxes have
_LONGEST_PATH = 107  # bytes of the path of a Unix socket (unix(7))
_BACKLOG = 128  # maximum number of connections that wait in the kernel

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Address(NamedTuple):
    """An address to listen on or to connect to: the path of a Unix socket, or a host and port."""

    path: str | None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can reach the address."""
        return self.path is not None or self.host in ("localhost", "127.0.0.1", "::1")


def parse_address(text: str) -> Address:
    """Parse HOST:PORT, or the path of a Unix socket.

    Raises
    ------
    ConfigError
        If it is neither.

    Examples
    --------
    >>> str(parse_address("127.0.0.1:2525")), parse_address("/run/streamnb/lmtp").path
    ('127.0.0.1:2525', '/run/streamnb/lmtp')
    """
    if text.startswith(("/", "unix:/")):
        return Address(text.removeprefix("unix:"))
    bracketed, _, port = text.rpartition(":")
    host = bracketed.strip("[]")
    if not host or not port.isdecimal() or not 0 <= int(port[:6]) < 1 << 16:
        raise ConfigError(
            f"{text!r:.100}: not an address; write HOST:PORT, or the /PATH of a Unix socket"
        )
    return Address(None, host, int(port))


def parse_network(text: str) -> Network:
    """Parse a network such as 192.0.2.0/24, or a single address.

    Raises
    ------
    ConfigError
        If it is neither.
    """
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        raise ConfigError(f"{text!r:.100}: not a network; write ADDRESS or ADDRESS/BITS") from None


def _parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def is_ip(host: str) -> bool:
    """Return whether a host is a numeric address, not a name."""
    return _parse_ip(host) is not None


def is_loopback(host: str) -> bool:
    """Return whether a host is a numeric address of this machine's loopback."""
    ip = _parse_ip(host)
    return ip is not None and ip.is_loopback


def is_within(host: str, networks: tuple[Network, ...]) -> bool:
    """Return whether a numeric address lies in one of the networks."""
    ip = _parse_ip(host)
    return ip is not None and any(ip in network for network in networks)


def peer_host(connection: socket.socket) -> str:
    """Return the numeric address at the other end; "" for a Unix socket or a lost connection."""
    with contextlib.suppress(OSError):
        name = connection.getpeername()
        if isinstance(name, tuple):
            return str(_parse_ip(name[0]) or name[0])
    return ""


def listen(address: Address, mode: int = 0o600) -> socket.socket:
    """Return a socket that listens.

    Parameters
    ----------
    address
        The address to listen on.
    mode
        Permissions of a Unix socket.

    Raises
    ------
    ListenError
        If the address cannot be used, for example because another program listens there.
    AlreadyRunningError
        If another `streamnb serve` listens on a Unix socket.
    """
    try:
        if address.path is None:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            listening = socket.create_server(
                (address.host, address.port), family=family, backlog=_BACKLOG
            )
            listening.setblocking(False)
            return listening
        return _listen_at(address.path, mode)
    except (OSError, ValueError) as error:
        is_default = (address.path or "").endswith(".sock")
        hint = "; set STREAMNB_SOCKET to another path" if is_default else ""
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            hint = "; stop the other program or choose another address"
        if len(os.fsencode(address.path or "")) > _LONGEST_PATH:
            hint = f"; choose a path of at most {_LONGEST_PATH} bytes"
        raise ListenError(f"{address}: cannot listen: {root_cause(error)}{hint}") from None


def _listen_at(path: str, mode: int) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.stat(path).st_mode):
                if _is_answered(path):
                    raise AlreadyRunningError(f"{path}: another `streamnb serve` is running")
                os.unlink(path)  # the socket of a killed server
        umask = os.umask(0o777 & ~mode)
        try:
            listening.bind(path)
        finally:
            os.umask(umask)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _is_answered(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        # With other errors, the server is busy.
        return probe.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)


def inherited_sockets() -> dict[str, list[socket.socket]]:
    """Return the sockets from systemd by FileDescriptorName; a name can have several.

    Raises
    ------
    ConfigError
        If systemd's variables or descriptors are not valid.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return {}
    try:
        count = int(os.environ.get("LISTEN_FDS", "0"))
    except ValueError:
        raise ConfigError("LISTEN_FDS: not a number") from None
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    sockets: dict[str, list[socket.socket]] = {}
    for i in range(count):
        descriptor = FIRST_PASSED + i
        with convert_os_errors(ConfigError, f"LISTEN_FDS: {descriptor} is not a socket"):
            passed = socket.socket(fileno=descriptor)
        if not _is_listening(passed):  # for example, from a unit with Accept=yes
            raise ConfigError(
                f"LISTEN_FDS: {descriptor} is not a listening stream socket; set ListenStream and "
                "Accept=no in the unit of the socket"
            )
        passed.setblocking(False)
        sockets.setdefault(names[i] if i < len(names) else "", []).append(passed)
    return sockets


def _is_listening(passed: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        return bool(passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return passed.type == socket.SOCK_STREAM  # the system does not report it


def raise_file_limit() -> None:
    """Raise the limit of open files to the highest allowed value: each open mailbox has three."""
    current, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if highest == resource.RLIM_INFINITY else min(highest, _MOST_FILES)
    if current != resource.RLIM_INFINITY and current < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, highest))


def watchdog_interval() -> float:
    """Return the seconds between two messages to systemd's watchdog; inf without a watchdog.

    It is half of the time after which systemd restarts the service (sd_watchdog_enabled(3)).
    """
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return math.inf
    with contextlib.suppress(ValueError):
        return int(os.environ.get("WATCHDOG_USEC", "")) / 2e6
    return math.inf


def notify_systemd(state: str, descriptors: Sequence[int] = ()) -> bool:
    """Send the state of this process to systemd if NOTIFY_SOCKET is set (sd_notify(3)).

    Return False if systemd did not accept it, so it must be sent again. Mail does not wait for a
    systemd that hangs.
    """
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return True
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification,
        contextlib.suppress(OSError),
    ):
        notification.setblocking(False)
        notification.connect("\0" + path[1:] if path.startswith("@") else path)
        socket.send_fds(notification, [state.encode()], descriptors)
        return True
    return False
