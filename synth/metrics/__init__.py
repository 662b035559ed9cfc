"""Scores: text or sums in, numbers out. Knows nothing of models, and imports no JAX."""
