"""Synthetic files: what is done with them after a model was fitted."""
