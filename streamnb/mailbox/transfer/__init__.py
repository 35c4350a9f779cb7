"""What a mailbox knows, as files and back: JSON lines, model files, bogofilter's dump, merging."""
