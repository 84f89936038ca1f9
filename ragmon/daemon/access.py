"""Access to one daemon: its tokens, its audit log, and the secret files that it watches."""

from typing import NamedTuple

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.audit import AuditLog, build_audit
from ragmon.daemon.secret_files import SecretWatch
from ragmon.daemon.tls import Certificates, build_certificates
from ragmon.daemon.tokens import AccessTokens
from ragmon.exposition.own import OwnMetrics


class AccessControl(NamedTuple):
    """Rights, and the record of their use."""

    audit: AuditLog
    tokens: AccessTokens
    secrets: SecretWatch
    certificates: Certificates | None  # None: plain HTTP

    def components(self) -> tuple[AuditLog, AccessTokens, SecretWatch]:
        """Parts that are started and stopped, in this order."""
        return self.audit, self.tokens, self.secrets

    def generate_tokens(self) -> None:
        """Make what the settings leave to ragmon; the data directory must be locked.

        Raises:
            SettingsError: the data directory cannot be written.
        """
        self.tokens.generate()
        self.secrets.accept()


def build_access(settings: Settings, clock: Clock, own: OwnMetrics) -> AccessControl:
    """Access by the settings.

    Raises:
        SettingsError: a secret file cannot be read or is empty.
    """
    audit = build_audit(settings, clock, own)
    tokens = AccessTokens(settings, clock, own, audit.refused)
    certificates = build_certificates(settings.tls, own)
    files = tokens.files() + ([] if certificates is None else [certificates.files()])
    return AccessControl(audit, tokens, SecretWatch(files, own, audit.note), certificates)
