"""A local judge's process without PyTorch: a stand-in for the model, which knows words alone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOADING = '''
"""In the place of ``ragmon.judges.local.loading``."""

import os
import re
import signal

from ragmon.judges.local.findings import TokenScore
from ragmon.judges.local.options import ModelLoadError
from ragmon.judges.local.prompts import LettucePrompt
from ragmon.judges.local.token_judge import TokenJudge


class Words:
    """A word is supported where the prompt holds it."""

    window = 4_096

    def __init__(self, version):
        self.version = version

    def count(self, text):
        return len(text.split())

    def tokens(self, pairs):
        return [[self.score(prompt, word) for word in re.finditer(r"\\w+", answer)]
                for prompt, answer in pairs]

    def score(self, prompt, word):
        if word[0] == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        held = re.search(rf"\\b{word[0]}\\b", prompt) is not None
        return TokenScore(word.start(), word.end(), 0.1 if held else 0.9)


def load(options):
    if not os.path.exists(os.path.join(options.model, "weights")):
        raise ModelLoadError(f"judge.local.model {options.model} cannot be loaded: no weights")
    return TokenJudge(Words(f"{options.kind} words"), LettucePrompt())
'''

_SITE = """
import sys

if "ragmon.judges.local.worker" in sys.orig_argv:
    import stand_in_loading

    sys.modules["ragmon.judges.local.loading"] = stand_in_loading
"""


class StandInModel:
    """A directory with a model, and the folder by which Python takes the stand-in for PyTorch."""

    def __init__(self, directory: Path) -> None:
        self.site = directory / "site"
        self.site.mkdir(parents=True)
        for name in ("torch", "transformers"):
            (self.site / name).mkdir()
            (self.site / name / "__init__.py").touch()
        (self.site / "stand_in_loading.py").write_text(_LOADING)
        (self.site / "sitecustomize.py").write_text(_SITE)
        paths = [str(self.site), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {"PYTHONPATH": os.pathsep.join(paths)}
        self.model = directory / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text("{}")
        self.heal()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let this process see the extra as installed, which it checks before it starts another."""
        sys.path.insert(0, str(self.site))
        try:
            yield
        finally:
            sys.path.remove(str(self.site))

    def heal(self) -> None:
        """Lay the weights there."""
        (self.model / "weights").touch()

    def break_(self) -> None:
        """Take the weights away."""
        (self.model / "weights").unlink()
