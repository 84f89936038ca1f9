"""Coverage-guided fuzzing of everything that reads what others wrote.

A target is a module in ``tests/fuzz/targets``; see CONTRIBUTING.md for how to add one.
"""
