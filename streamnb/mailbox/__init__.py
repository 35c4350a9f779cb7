"""Mailboxes: counts and a ledger in a database, and the processing of arriving mail.

This file imports nothing, so a client of a running `streamnb serve` starts fast.
"""
