"""What a model knows: counts by class and feature, in memory or in SQLite, behind one protocol."""
