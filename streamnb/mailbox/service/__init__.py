"""A process that stays and answers, and those that ask it."""
