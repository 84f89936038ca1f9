"""Judges grade answers: one file or package a judge, found by its name."""
