"""Mailboxes: counts and a ledger in a database, and what is done with mail as it arrives.

Nothing is imported here: a delivery agent that asks a running `streamnb serve` pays for little more
than a socket.
"""
