"""Applications and tokens of a provider that has its own models for them."""
