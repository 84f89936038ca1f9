"""TLS of ragmon's own ports: certificates that are taken into use when they are renewed."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

from ragmon.config import Settings
from ragmon.config.access import TlsSettings
from ragmon.daemon.secret_files import SecretFiles
from ragmon.errors import SettingsError
from ragmon.exposition.own import OwnMetrics
from ragmon.sources.otlp.receiver.certificate import PemFiles

_END = b"-----END CERTIFICATE-----"
_UTC_TIME, _VERSION = 0x17, 0xA0
_CENTURY = 50  # two digits from here on are of the 20th


class Certificates:
    """The certificate in use; established connections keep theirs."""

    def __init__(self, cert_file: Path, key_file: Path, client_ca_file: Path | None) -> None:
        """Read the files.

        Args:
            cert_file: PEM, the certificate first.
            key_file: PEM, without a passphrase.
            client_ca_file: PEM of those whose clients are admitted; None: clients need none.

        Raises:
            SettingsError: they cannot be used.
        """
        self._paths = (cert_file, key_file, client_ca_file)
        self.pem = self._read()
        self._current = self._build()
        self.context = self._build()
        self.context.sni_callback = self._choose
        self.expires_at = not_after(self.pem.chain)

    def reload(self) -> None:
        """Take the files as they are now into use, for new connections.

        Raises:
            SettingsError: they cannot be used.
        """
        pem, context = self._read(), self._build()
        self.expires_at = not_after(pem.chain)
        self.pem, self._current = pem, context

    def files(self) -> SecretFiles:
        """Its files, to be watched."""
        paths = [path for path in self._paths if path is not None]
        return SecretFiles(name="tls", paths=paths, apply=self.reload)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        """Called at the beginning of each handshake, with or without a server's name."""
        connection.context = self._current

    def _read(self) -> PemFiles:
        cert_file, key_file, client_ca_file = self._paths
        return PemFiles(
            chain=_bytes("cert_file", cert_file),
            key=_bytes("key_file", key_file),
            client_ca=None if client_ca_file is None else _bytes("client_ca_file", client_ca_file),
        )

    def _build(self) -> ssl.SSLContext:
        cert_file, key_file, client_ca_file = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0  # a session goes on after the certificate of its client is revoked
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a passphrase given, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(cert_file, key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"tls: {cert_file} and {key_file} cannot be used: {error}",
                hint="Write a PEM certificate and its own key, without a passphrase",
            ) from error
        if client_ca_file is not None:
            try:
                context.load_verify_locations(cafile=client_ca_file)
            except (OSError, ValueError) as error:
                raise SettingsError(
                    f"tls.client_ca_file: {client_ca_file} cannot be used: {error}"
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def build_certificates(settings: TlsSettings, own: OwnMetrics) -> Certificates | None:
    """TLS by the settings; None: plain HTTP.

    Raises:
        SettingsError: the files cannot be used.
    """
    certificates = None
    if settings.cert_file is not None and settings.key_file is not None:
        certificates = Certificates(settings.cert_file, settings.key_file, settings.client_ca_file)
    own.watch_each(
        "ragmon_tls_certificate_expiry_timestamp_seconds",
        "Unix time at which the certificate of ragmon's own TLS expires; renew the file before. "
        "Absent without TLS.",
        "file",
        lambda: {} if certificates is None else {str(settings.cert_file): certificates.expires_at},
    )
    return certificates


def client_context(settings: Settings) -> ssl.SSLContext:
    """TLS from one replica to another: it checks the other's certificate, and shows its own."""
    ca_file = settings.replica.ca_file
    context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    tls = settings.tls
    if tls.client_ca_file is not None and tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
    return context


def not_after(pem: bytes) -> float:
    """Unix seconds at which the first certificate of a PEM file expires.

    Raises:
        SettingsError: there is none.

    Source: RFC 5280, section 4.1: Certificate and TBSCertificate.
    """
    try:
        first = pem[pem.index(b"-----BEGIN CERTIFICATE-----") : pem.index(_END) + len(_END)]
        der = ssl.PEM_cert_to_DER_cert(first.decode())
        _, at, _ = _element(der, 0)  # Certificate
        _, at, _ = _element(der, at)  # TBSCertificate
        tag, _, after = _element(der, at)
        if tag == _VERSION:
            _, _, after = _element(der, after)
        for _ in ("signature", "issuer"):  # the serial number is behind us
            _, _, after = _element(der, after)
        _, at, _ = _element(der, after)  # Validity
        _, _, at = _element(der, at)
        tag, at, end = _element(der, at)
        return _moment(der[at:end].decode(), short=tag == _UTC_TIME)
    except (ValueError, IndexError) as error:
        raise SettingsError(f"tls.cert_file: no certificate in PEM: {error}") from error


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the element at a place."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    return der[at], start, start + length


def _moment(text: str, *, short: bool) -> float:
    if short:
        text = ("19" if int(text[:2]) >= _CENTURY else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _bytes(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"tls.{name}: cannot read {path}: {error.strerror}") from error
