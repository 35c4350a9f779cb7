"""Watching an account: what its owner moves teaches, new mail is sorted."""
