"""The benchmarked site, with tools whose effects can be counted."""
