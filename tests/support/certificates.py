"""Certificates made by the openssl program, for handshakes on loopback."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.tools import program


class Pair(NamedTuple):
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority in a directory of its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.pair = self._make(name, "-addext", "basicConstraints=critical,CA:TRUE")
        self.cert = self.pair.cert

    def issue(self, name: str, days: int = 30) -> Pair:
        """A certificate for 127.0.0.1 and for clients."""
        return self._make(
            name, "-CA", str(self.pair.cert), "-CAkey", str(self.pair.key),
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
            "-addext", "basicConstraints=critical,CA:FALSE", days=days,
        )  # fmt: skip

    def _make(self, name: str, *more: str, days: int = 30) -> Pair:
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        command = [
            program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:prime256v1", "-nodes", "-days", str(days), "-subj", f"/CN={name}",
            "-keyout", str(pair.key), "-out", str(pair.cert), *more,
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        return pair


def ends_at(pair: Pair) -> str:
    """The end of a certificate, as openssl prints it."""
    command = [program("openssl"), "x509", "-in", str(pair.cert), "-noout", "-enddate"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    return ran.stdout.strip().removeprefix("notAfter=")
