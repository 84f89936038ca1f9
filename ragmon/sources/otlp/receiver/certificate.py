"""Certificates as files, for the server of OTLP over gRPC."""

from msgspec import Struct


class PemFiles(Struct, frozen=True, kw_only=True):
    """Contents of the files of ``tls``."""

    chain: bytes
    key: bytes
    client_ca: bytes | None = None  # None: clients need no certificate
