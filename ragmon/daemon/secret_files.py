"""Tokens and certificates in files, taken into use when they change, without a restart."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from ragmon.errors import RagmonError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Loop, LoopOwner

_EVERY_S = 5.0


class SecretFiles(Struct, frozen=True, kw_only=True):
    """Files that are read together, and what takes them into use."""

    name: str
    paths: Sequence[Path]
    apply: Callable[[], None]  # raises RagmonError, OSError or ValueError: the old ones stay


class SecretWatch(LoopOwner):
    """Reads files again when their content changes, also behind a link that leads elsewhere."""

    def __init__(
        self,
        groups: Sequence[SecretFiles],
        own: OwnMetrics,
        reloaded: Callable[[str, str], None] = lambda _name, _outcome: None,
    ) -> None:
        """Make it; the files are in use as they are now.

        Args:
            groups: files that belong together.
            own: has the outcome exposed.
            reloaded: called with the name of a group and the outcome of each reload.
        """
        self._groups = groups
        self._reloaded = reloaded
        self._log = structlog.get_logger("secrets")
        self._known = {group.name: _fingerprint(group.paths) for group in groups}
        self._failed: dict[str, bytes] = {}  # content that could not be used
        self.loop = Loop("secrets", self._turn, self._log)
        own.watch_each(
            "ragmon_secret_files_usable",
            "1: the files of tokens or TLS are in use as they are on disk; 0: they changed and "
            "cannot be used, the former ones stay in use. The log says why.",
            "files",
            lambda: {group.name: float(group.name not in self._failed) for group in groups},
        )

    def accept(self) -> None:
        """Take the files for known as they are now: whoever made them has them in use."""
        self._known = {group.name: _fingerprint(group.paths) for group in self._groups}

    def start(self) -> None:
        """Begin."""
        if self._groups:
            self.loop.start()

    def stop(self) -> None:
        """End."""
        self.loop.stop()

    def check(self) -> None:
        """Take changed files into use; what cannot be used is tried again at every check."""
        for group in self._groups:
            content = _fingerprint(group.paths)
            if content != self._known[group.name]:
                self._reload(group, content)
            else:
                self._failed.pop(group.name, None)  # it is as it was before

    def _reload(self, group: SecretFiles, content: bytes) -> None:
        try:
            group.apply()
        except (RagmonError, OSError, ValueError) as error:
            if self._failed.get(group.name) != content:  # say it once
                self._log.error("secret_files_unusable", files=group.name, error=str(error))
                self._reloaded(group.name, "failed")
            self._failed[group.name] = content
            return
        self._known[group.name] = content
        self._failed.pop(group.name, None)
        self._log.info("secret_files_reloaded", files=group.name)
        self._reloaded(group.name, "reloaded")

    def _turn(self) -> float:
        self.check()
        return _EVERY_S


def _fingerprint(paths: Sequence[Path]) -> bytes:
    """A hash over the contents; a file that cannot be read is a content of its own."""
    content = hashlib.sha256()
    for path in paths:
        try:
            content.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            content.update(repr(error.errno).encode())
    return content.digest()
