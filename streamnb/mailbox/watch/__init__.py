"""Watching of accounts: learning from a person's moves, and sorting new mail."""
