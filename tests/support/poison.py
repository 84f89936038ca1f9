"""Traces that harm the process that maps them and answers that end the judge, for tests."""

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


_JUDGE = """
import os, signal, sys

if "ragmon.judges.worker" in sys.orig_argv:
    from ragmon.judges.grounding import GroundingJudge

    score = GroundingJudge.score

    def poisoned(self, query, answer, chunks):
        if "poison" in answer and os.path.exists({marker!r}):
            os.kill(os.getpid(), signal.SIGKILL)
        return score(self, query, answer, chunks)

    GroundingJudge.score = poisoned
"""


class PoisonedAnswers:
    """An embedded judge whose process dies of some answers, until it is cured."""

    def __init__(self, directory: Path) -> None:
        site = directory / "site"
        site.mkdir(parents=True)
        self._marker = directory / "poisonous"
        self._marker.touch()
        (site / "sitecustomize.py").write_text(_JUDGE.format(marker=str(self._marker)))
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {"PYTHONPATH": os.pathsep.join(paths)}

    def cure(self) -> None:
        """Let every answer be judged from now on."""
        self._marker.unlink()


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
