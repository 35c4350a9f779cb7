"""Generative models of tables: rows of named values, numeric or not."""
