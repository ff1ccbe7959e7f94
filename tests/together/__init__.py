"""Tests of pairs of features, named after the pair."""
