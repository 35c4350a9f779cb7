"""The page of a mailbox in a browser."""
