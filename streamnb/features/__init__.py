"""Tokenizers: text, mail and raw bytes to sparse vectors of counts, one file for each view."""
