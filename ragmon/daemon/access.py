"""Access to one daemon: its tokens, its audit log, and the secret files that it watches."""

from typing import NamedTuple

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.audit import AuditLog, build_audit
from ragmon.daemon.secret_files import SecretWatch
from ragmon.daemon.tokens import AccessTokens
from ragmon.exposition.own import OwnMetrics


class AccessControl(NamedTuple):
    """Parts in the order in which they start."""

    audit: AuditLog
    tokens: AccessTokens
    secrets: SecretWatch


def build_access(settings: Settings, clock: Clock, own: OwnMetrics) -> AccessControl:
    """Access by the settings.

    Raises:
        SettingsError: a secret file cannot be read or is empty.
    """
    audit = build_audit(settings, clock, own)
    tokens = AccessTokens(settings, clock, own, audit.refused)
    return AccessControl(audit, tokens, SecretWatch(tokens.files(), own, audit.note))
