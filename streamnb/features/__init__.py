"""From text, mail and bytes to sparse vectors of counts: a file for each view of a message."""
