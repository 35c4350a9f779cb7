"""Ports for programs that cannot be told to listen on port 0."""

import itertools
import os
import socket

# Below the ports that Linux, BSD and macOS give to outgoing connections: such a connection would
# take the port first, and a client that tries a port of that range can even reach itself.
FIRST, LAST = 10_000, 32_767
RESERVED = []  # UDP sockets on the ports given so far, until this process ends
NUMBERS = itertools.count(os.getpid() * 61)


def free_port() -> int:
    """Return a TCP port of loopback that nothing uses, and that no other process of the tests gets."""
    for _ in range(FIRST, LAST):
        port = FIRST + next(NUMBERS) % (LAST - FIRST)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        RESERVED.append(reservation)
        return port
    raise RuntimeError(f"each port from {FIRST} to {LAST} is used; end other programs")
