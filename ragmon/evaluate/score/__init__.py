"""Scoring: cases and a run to a matrix of scores, one row a case."""
