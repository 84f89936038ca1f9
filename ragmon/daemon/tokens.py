"""Tokens of the settings: read, shown, and remembered by when they were last used."""

import contextlib
import os
from pathlib import Path

import msgspec
import structlog

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.config.access import TokenSettings
from ragmon.daemon.generated_tokens import GeneratedTokens
from ragmon.daemon.secret_files import SecretFiles
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Loop, LoopOwner
from ragmon.token_schema import TokenList, TokenView
from ragmon.web.auth import Authorizer, Failed, Grant, digest
from ragmon.web.sessions import Sessions

_FILE = "token-use.json"
_SAVE_EVERY_S = 60.0
_decode = msgspec.json.Decoder(dict[str, float]).decode


def grants(settings: Settings) -> list[Grant]:
    """The configured tokens, as hashes; one that is still to be generated has none.

    Raises:
        SettingsError: a token file cannot be read or is empty.
    """
    generated = GeneratedTokens(settings.data_dir)
    return [
        Grant(
            name=token.name,
            hashes=_hashes(token, generated),
            scopes=frozenset(token.scopes),
            expires=token.expires,
            pipelines=token.pipelines,
            requests_per_second=token.rate.requests_per_second,
            records_per_second=token.rate.records_per_second,
        )
        for token in settings.auth.tokens
    ]


class AccessTokens(LoopOwner):
    """The tokens of one daemon."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        own: OwnMetrics,
        failed: Failed = lambda _scope, _name, _reason: None,
    ) -> None:
        """Read them.

        Args:
            settings: of the daemon.
            clock: of the daemon.
            own: has their expiry exposed.
            failed: called with every use that is refused.

        Raises:
            SettingsError: a token file cannot be read or is empty.
        """
        self._settings = settings
        self._generated = GeneratedTokens(settings.data_dir)
        self.authorizer = Authorizer(grants(settings), clock, failed, _sessions(settings, clock))
        self._path = settings.data_dir / _FILE
        self._saved: dict[str, float] = {}
        self._log = structlog.get_logger("tokens")
        self.loop = Loop("token-use", self._turn, self._log, finish=self._save)
        own.watch_each(
            "ragmon_token_expiry_timestamp_seconds",
            "Unix time from which a token of auth.tokens is refused; replace it before. Absent "
            "for tokens that do not expire.",
            "token",
            self.authorizer.expiries,
        )

    def start(self) -> None:
        """Begin to remember when tokens are used."""
        if self._settings.auth.tokens:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                self._saved = _decode(self._path.read_bytes())
            self.authorizer.recall(self._saved)
            self.loop.start()

    def stop(self) -> None:
        """End."""
        self.loop.stop()

    def generate(self) -> None:
        """Make the tokens that ragmon is to make itself and that are missing.

        Raises:
            SettingsError: the data directory cannot be written.
        """
        names = [token.name for token in self._settings.auth.tokens if token.generate]
        for name in self._generated.make(names):
            show = f"ragmon token show {name}"
            self._log.info("token_generated", token=name, show=show)
        if names:
            self._replace()

    def files(self) -> list[SecretFiles]:
        """The files of tokens, to be watched."""
        tokens = self._settings.auth.tokens
        paths = [token.token_file for token in tokens if token.token_file is not None]
        paths += [self._generated.path(token.name) for token in tokens if token.generate]
        return [SecretFiles(name="tokens", paths=paths, apply=self._replace)] if paths else []

    def listed(self) -> TokenList:
        """Every token, without its secret."""
        return TokenList(
            tokens=[
                TokenView(
                    name=grant.name,
                    scopes=sorted(grant.scopes),
                    pipelines=list(grant.pipelines),
                    secrets=len(grant.hashes),
                    expires=grant.expires,
                    last_used=used_at,
                    requests_per_second=grant.requests_per_second,
                    records_per_second=grant.records_per_second,
                )
                for grant, used_at in self.authorizer.grants()
            ]
        )

    def _replace(self) -> None:
        fresh = grants(self._settings)
        for grant in fresh:
            if not grant.hashes:  # its file was deleted: the former secret stays in use
                self._generated.secrets(grant.name)
        self.authorizer.replace(fresh)

    def _turn(self) -> float:
        self._save()
        return _SAVE_EVERY_S

    def _save(self) -> None:
        """Keep the times of last use over a restart."""
        used = {grant.name: at for grant, at in self.authorizer.grants() if at is not None}
        if not used or used == self._saved:
            return
        fresh = self._path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(used))
        fresh.replace(self._path)
        self._saved = used


def _sessions(settings: Settings, clock: Clock) -> Sessions:
    is_secure = settings.external_url.lower().startswith("https://")
    return Sessions(clock, settings.auth.session_lifetime, is_secure=is_secure)


def _hashes(token: TokenSettings, generated: GeneratedTokens) -> tuple[bytes, ...]:
    if token.generate:
        is_made = generated.path(token.name).exists()
        return tuple(map(digest, generated.secrets(token.name))) if is_made else ()
    if token.sha256 is not None:
        return (bytes.fromhex(token.sha256),)
    if token.token is not None:
        return (digest(token.token.get_secret_value()),)
    assert token.token_file is not None
    return tuple(map(digest, _read_secrets(token.token_file)))


def _read_secrets(path: Path) -> list[str]:
    """The secrets of a file, one on each line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"auth.tokens: cannot read {path}: {error}") from error
    secrets = [line.strip() for line in text.splitlines() if line.strip()]
    if not secrets:
        raise SettingsError(f"auth.tokens: {path} is empty")
    return secrets
