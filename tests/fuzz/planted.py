"""A target with a defect, for the test that the engine finds one: no campaign runs it."""

from ragmon.citations import parse

WORDS = [b"boom"]


class PlantedError(Exception):
    """The defect."""


def seeds() -> list[bytes]:
    """Harmless ones."""
    return [b"boo", b"harmless [1]"]


def run(data: bytes) -> None:
    """Fail for what begins with a word of the dictionary."""
    parse(data.decode("latin-1"), ["1"])
    if data.startswith(b"boom"):
        raise PlantedError
