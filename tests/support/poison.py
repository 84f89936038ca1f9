"""A trace convention that harms the process that maps a trace, installed for a test."""

import os
import textwrap
from pathlib import Path

_SITE = """
import ragmon.sources.otlp.conventions as conventions
conventions.__path__.append({folder!r})
"""
_CONVENTION = """
import os, re, signal, time

ORDER = 0
SPEAKS = frozenset({"poison"})

def role(span):
    return ""

def read(span, facts):
    kind = span.attributes.get("poison.kind")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "spin":
        while True:
            pass
    elif kind == "freeze":
        re.fullmatch("(a+)+", "a" * 60 + "b")
    elif kind == "raise":
        raise RuntimeError("an error that no list of errors names")
"""


class Poison:
    """Folders that Python reads before it starts ragmon."""

    def __init__(self, directory: Path) -> None:
        site, conventions = directory / "site", directory / "conventions"
        site.mkdir(parents=True)
        conventions.mkdir()
        (site / "sitecustomize.py").write_text(_SITE.format(folder=str(conventions)))
        self._convention = conventions / "poison.py"
        self._convention.write_text(textwrap.dedent(_CONVENTION))
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {"PYTHONPATH": os.pathsep.join(paths)}

    def cure(self) -> None:
        """Take the convention away, as a new version of ragmon would mend it."""
        self._convention.unlink()
