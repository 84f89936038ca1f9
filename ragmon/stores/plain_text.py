"""Texts that every kind of store can hold."""


def plain(text: str) -> str:
    """A text without the character 0, which PostgreSQL refuses, and without half characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
