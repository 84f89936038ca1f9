"""Runs: the answers of a RAG system to the cases, from a live endpoint or the store."""
