"""Check of custom judges at start: prompts can be used, functions can be imported."""

import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO

import msgspec

from ragmon.errors import SettingsError
from ragmon.judges.custom.options import Options, read_prompt
from ragmon.judges.worker import WorkerStart, read

_LONGEST_S = 60.0  # to import what a function needs


def check(judges: Sequence[Options], *, has_model: bool) -> None:
    """Refuse what cannot judge; a function is imported in a process of its own.

    Args:
        judges: by the settings.
        has_model: whether a language model is configured.

    Raises:
        SettingsError: a prompt has no model or cannot be used, or a function not be imported.
    """
    for judge in judges:
        if judge.kind == "llm":
            if not has_model:
                raise SettingsError(
                    f"judge.custom {judge.name}: kind llm needs judge.llm",
                    hint="Set judge.llm.base_url, or write a function (kind: python)",
                )
            read_prompt(judge)
        else:
            _check_entry(judge)


def _check_entry(judge: Options) -> None:
    command = [sys.executable, "-m", "ragmon.judges.custom.worker", judge.model_dump_json()]
    try:
        ended = subprocess.run(  # noqa: S603 - our own module, our own interpreter
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"judge.custom {judge.name}: {error}") from error
    body = read(BytesIO(ended.stdout))
    if body is None:
        raise SettingsError(f"judge.custom {judge.name}: its process ended ({ended.returncode})")
    start = msgspec.msgpack.decode(body, type=WorkerStart)
    if start.error:
        raise SettingsError(
            start.error,
            hint="Install the package beside ragmon, or add its folder to PYTHONPATH",
        )
