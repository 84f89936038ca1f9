"""Prompts as text files by version; a change of wording is a new version."""

from functools import cache
from importlib import resources

VERSION = "v1"


@cache
def text(name: str) -> str:
    """One prompt file of the current version, without the line end."""
    folder = resources.files(__package__).joinpath(VERSION)
    return folder.joinpath(f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")
