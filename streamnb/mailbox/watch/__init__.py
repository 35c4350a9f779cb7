"""Watching an account: learning from its owner's moves, and sorting new mail."""
