"""Erasure: content of a user, a session or an expired pipeline leaves every place that has it."""
