"""A page for the owner of a mailbox: what to look at, how well it does, what it knows."""
