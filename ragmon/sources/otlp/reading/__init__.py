"""Readers of span attributes: values, messages, documents, usage."""
