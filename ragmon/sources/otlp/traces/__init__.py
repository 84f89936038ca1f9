"""Traces to queries: trees of spans, retrieval, feedback, errors."""
