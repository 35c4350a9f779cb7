"""Counts by class and feature, in memory or in a database, with one protocol."""
