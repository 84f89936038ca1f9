"""Judging in the daemon: selection of answers, their judges, and the way back of verdicts."""
