"""ragmon: a production monitoring agent for RAG systems."""

__version__ = "0.1.0"
