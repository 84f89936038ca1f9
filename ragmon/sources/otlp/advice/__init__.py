"""Advice on traces: attributes that were not read, and the line that each framework needs."""
