"""Pictures of runs and experiments."""
