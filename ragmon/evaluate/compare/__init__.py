"""Comparison of evaluations: the release gate, paired differences, preference."""
