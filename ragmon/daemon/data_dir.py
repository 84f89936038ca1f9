"""The folder of what a daemon keeps beside its store."""

import os
from pathlib import Path

import structlog

_REMEDY = (
    "make it a folder writable for user {user}, or set data_dir; until then the audit log, what"
    " topics are called and which slices are shown do not outlive a restart"
)


def make_data_dir(path: Path) -> None:
    """Make it, for its owner alone, where the store has not.

    A store elsewhere needs none, so that the daemon goes on where this fails, with a warning.

    Args:
        path: that may exist.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(path, os.W_OK | os.X_OK):
            return
        reason = "not writable"
    except OSError as error:
        reason = error.strerror or str(error)
    structlog.get_logger("data-dir").warning(
        "data_dir_not_writable",
        path=str(path),
        error=reason,
        remedy=_REMEDY.format(user=os.getuid()),
    )
