"""Tokenizers, which convert text, mail and raw bytes to sparse vectors of counts."""
