"""TLS of ragmon's own: real handshakes, renewal without a restart, client certificates."""

import http.client
import json
import shutil
import socket
import ssl
from urllib.parse import urlsplit

import pytest

from ragmon import cli
from ragmon.client import Monitor, Options
from ragmon.config import load
from ragmon.daemon.tls import Certificates, not_after
from ragmon.errors import SettingsError
from tests.support.certificates import Authority, ends_at
from tests.support.daemons import running


class Files:
    """Certificate, key and authorities where a Secret would be mounted: behind one link."""

    def __init__(self, directory, pair, client_ca=None):
        self.directory = directory
        self._number = 0
        self.mount(pair, client_ca)

    def mount(self, pair, client_ca=None):
        self._number += 1
        target = self.directory / f"..{self._number}"
        target.mkdir(parents=True)
        for name, source in (("tls.crt", pair.cert), ("tls.key", pair.key), ("ca.crt", client_ca)):
            if source is not None:
                shutil.copy(source, target / name)
        fresh = self.directory / "..data_tmp"
        fresh.symlink_to(target.name)
        fresh.replace(self.directory / "..data")

    def path(self, name):
        return str(self.directory / "..data" / name)

    def settings(self, client_ca=False):
        given = {"cert_file": self.path("tls.crt"), "key_file": self.path("tls.key")}
        if client_ca:
            given["client_ca_file"] = self.path("ca.crt")
        return {f"tls__{name}": path for name, path in given.items()}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "other")


def trusting(authority, client=None, **given):
    context = ssl.create_default_context(cafile=authority.cert)
    for name, value in given.items():
        setattr(context, name, value)
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


OPENED = []


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPENED:
        OPENED.pop().close()


def connected(site, context):
    parts = urlsplit(site.url)
    made = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=10, context=context)
    OPENED.append(made)
    return made


def asked(connection):
    connection.request("GET", "/livez")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def serial(connection):
    return connection.sock.getpeercert()["serialNumber"]


def test_it_speaks_tls_and_nothing_else(tmp_path, authority, other):
    pair = authority.issue("plain")
    files = Files(tmp_path / "tls", pair)
    with running(tmp_path / "data", **files.settings()) as site:
        assert site.url.startswith("https://127.0.0.1:")
        connection = connected(site, trusting(authority))
        assert asked(connection) == 200
        assert connection.sock.version() == "TLSv1.3"
        older = trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
        assert asked(connected(site, older)) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(connected(site, trusting(other)))
        parts = urlsplit(site.url)
        plain = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
        with pytest.raises((http.client.HTTPException, OSError)):
            asked(plain)
        plain.close()
        shown = site.daemon._context.own.total(
            "ragmon_tls_certificate_expiry_timestamp_seconds", file=files.path("tls.crt")
        )
        assert shown == ssl.cert_time_to_seconds(ends_at(pair))


def test_versions_before_1_2_are_not_offered(authority):
    pair = authority.issue("versions")
    context = Certificates(pair.cert, pair.key, None).context
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_limits_hold_within_tls(tmp_path, authority):
    files = Files(tmp_path / "tls", authority.issue("limits"))
    with running(tmp_path / "data", **files.settings(), limits__headers=2_048) as site:
        parts = urlsplit(site.url)
        with (
            socket.create_connection((parts.hostname, parts.port), 10) as plain,
            trusting(authority).wrap_socket(plain, server_hostname="127.0.0.1") as wire,
        ):
            wire.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 5_000)
            assert wire.recv(100).startswith(b"HTTP/1.1 431")
        assert asked(connected(site, trusting(authority))) == 200


def test_a_renewed_certificate_is_taken_without_a_restart(tmp_path, authority):
    files = Files(tmp_path / "tls", authority.issue("first"))
    with running(tmp_path / "data", **files.settings()) as site:
        established = connected(site, trusting(authority))
        assert asked(established) == 200
        before = serial(established)
        files.mount(authority.issue("second", days=60))
        site.daemon._access.secrets.check()
        fresh = connected(site, trusting(authority))
        assert asked(fresh) == 200
        assert serial(fresh) != before
        socket_before = established.sock
        assert asked(established) == 200
        assert established.sock is socket_before
        assert serial(established) == before


def test_half_of_a_renewal_changes_nothing(tmp_path, authority):
    first, second = authority.issue("half-1"), authority.issue("half-2")
    files = Files(tmp_path / "tls", first)
    with running(tmp_path / "data", **files.settings()) as site:

        def usable():
            site.daemon._access.secrets.check()
            own = site.daemon._context.own
            return own.total("ragmon_secret_files_usable", files="tls")

        files.mount(first._replace(cert=second.cert))
        assert usable() == 0
        connection = connected(site, trusting(authority))
        assert asked(connection) == 200
        assert serial(connection) == ssl_serial(first)
        files.mount(second)
        assert usable() == 1
        connection = connected(site, trusting(authority))
        assert asked(connection) == 200
        assert serial(connection) == ssl_serial(second)


def ssl_serial(pair):
    return ssl._ssl._test_decode_cert(str(pair.cert))["serialNumber"]


def refused(site, context):
    try:
        return asked(connected(site, context)) != 200
    except (ssl.SSLError, OSError, http.client.HTTPException):
        return True


def test_clients_show_a_certificate_of_the_authority_in_force(tmp_path, authority, other):
    server = authority.issue("server")
    files = Files(tmp_path / "tls", server, authority.cert)
    known, foreign = authority.issue("client"), other.issue("client")
    with running(tmp_path / "data", **files.settings(client_ca=True)) as site:
        assert refused(site, trusting(authority))
        assert refused(site, trusting(authority, foreign))
        assert not refused(site, trusting(authority, known))
        files.mount(server, other.cert)
        site.daemon._access.secrets.check()
        assert refused(site, trusting(authority, known))
        assert not refused(site, trusting(authority, foreign))


def test_commands_trust_what_they_are_told(tmp_path, authority, other, capsys, monkeypatch):
    files = Files(tmp_path / "tls", authority.issue("commands"), authority.cert)
    client = authority.issue("operator")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.cert))
    with running(tmp_path / "data", **files.settings(client_ca=True)) as site:
        own = ["--cert-file", str(client.cert), "--key-file", str(client.key)]
        command = ["silence", "list", "--json", "--url", site.url]
        assert cli.main([*command, "--ca-file", str(authority.cert), *own]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == []
        assert cli.main([*command, *own]) == 3
        assert "--ca-file" in capsys.readouterr().err
        assert cli.main([*command, "--ca-file", str(tmp_path / "none")]) == 2
        assert "there is no file" in capsys.readouterr().err
        assert cli.main([*command, *own[:2]]) == 2
        assert "give --cert-file and --key-file" in capsys.readouterr().err


def test_the_client_library_trusts_what_it_is_told(tmp_path, authority):
    files = Files(tmp_path / "tls", authority.issue("library"))
    with running(tmp_path / "data", **files.settings()) as site:
        monitor = Monitor(site.url, options=Options(ca_file=str(authority.cert)))
        monitor.log_query(query="q", answer="a")
        monitor.close()
        own = site.daemon._context.own
        assert own.total("ragmon_ingest_records_total", source="http") == 1


def test_grpc_speaks_tls_too(tmp_path, authority):
    grpc = pytest.importorskip("grpc")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    files = Files(tmp_path / "tls", authority.issue("grpc"), authority.cert)
    client = authority.issue("exporter")
    method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    address = f"127.0.0.1:{port}"

    def called(*credentials):
        found = grpc.ssl_channel_credentials(authority.cert.read_bytes(), *credentials)
        with grpc.secure_channel(address, found) as channel:
            return channel.unary_unary(method)(b"", timeout=5)

    flags = files.settings(client_ca=True)
    with running(tmp_path / "data", **flags, otlp__grpc=address):
        assert called(client.key.read_bytes(), client.cert.read_bytes()) == b""
        with pytest.raises(grpc.RpcError):
            called()
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary(method)(b"", timeout=5)


@pytest.mark.parametrize("days", [30, 25_000])
def test_the_end_is_read_as_openssl_reads_it(authority, days):
    pair = authority.issue(f"days-{days}", days)  # beyond 2049 its form is another one
    assert not_after(pair.cert.read_bytes()) == ssl.cert_time_to_seconds(ends_at(pair))


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----", id="empty"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", id="no base64"),
    ],
)
def test_what_is_no_certificate_is_refused(pem):
    with pytest.raises(SettingsError, match="no certificate"):
        not_after(pem)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"tls.cert_file": "a"}, "give cert_file and key_file", id="no key"),
        pytest.param({"tls.key_file": "a"}, "give cert_file and key_file", id="no certificate"),
        pytest.param({"tls.client_ca_file": "a"}, "needs cert_file", id="authorities alone"),
    ],
)
def test_half_of_the_settings_is_refused(given, message):
    with pytest.raises(SettingsError, match=message):
        load(None, given, {})


def test_files_that_cannot_be_used_stop_the_start(tmp_path, authority):
    pair, other_pair = authority.issue("start-1"), authority.issue("start-2")
    for cert, key, ca in [
        (tmp_path / "none", pair.key, None),
        (pair.cert, other_pair.key, None),
        (pair.cert, pair.key, pair.key),
    ]:
        with pytest.raises(SettingsError, match="tls"):
            Certificates(cert, key, ca)
