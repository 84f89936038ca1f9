"""Ingest: one writer thread turns submissions into commits, windows and metrics."""
