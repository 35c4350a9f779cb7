"""Mailboxes: counts and a ledger in a database, and the processing of arriving mail.

Nothing is imported here, so that a client of a running `streamnb serve` starts fast.
"""
