"""Exports, imports and merging of mailboxes: JSON lines, model files, bogofilter's dump."""
