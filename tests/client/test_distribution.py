"""Two wheels of this repository: the client alone, and the server with a client inside."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from ragmon.client.fake import FakeServer
from tests.support.paths import ROOT

CLIENT = ROOT / "ragmon" / "client"
SEND = """
import sys
import ragmon.client.asgi, ragmon.client.decorator, ragmon.client.fake
from ragmon.client import Monitor

with Monitor(sys.argv[1]) as monitor:
    monitor.log_query(sys.version, "answer", [{"id": "a", "score": 0.5}], latency_ms=1.0)
print(sys.modules["ragmon.client"].__file__)
"""
TIMED = """
import subprocess, sys
code = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"
for _ in range(9):
    print(subprocess.run([sys.executable, "-Ic", code], stdout=-1, check=True).stdout.decode())
"""
LOADED = """
import sys
before = set(sys.modules)
from ragmon.client import Monitor
print(*sorted(set(sys.modules) - before))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Paths of both wheels, the client's first; built without the network."""
    folder = tmp_path_factory.mktemp("wheels")
    for place in (ROOT / "deploy" / "client", ROOT):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=120)
    server, client = sorted(folder.glob("*.whl"))
    assert client.name.startswith("ragmon_client-")
    return client, server


class Environment:
    """A virtual environment that has msgspec and nothing else."""

    def __init__(self, folder):
        self.folder = folder
        self.python = str(folder / "bin" / "python")
        self.uv("venv", "--python", sys.executable, str(folder))
        (self.packages,) = folder.glob("lib/python*/site-packages")
        (self.packages / "msgspec").symlink_to(Path(msgspec.__file__).parent)

    def uv(self, *arguments):
        environment = {**os.environ, "UV_CACHE_DIR": str(self.folder.parent / "cache")}
        command = [sys.executable, "-m", "uv", "--offline", "--no-config", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)

    def install(self, wheel):
        self.uv("pip", "install", "--no-deps", "--python", self.python, str(wheel))

    def uninstall(self, name):
        self.uv("pip", "uninstall", "--python", self.python, name)

    def run(self, program, *arguments):
        """Lines that a program prints, away from the repository; it says nothing else."""
        command = [self.python, "-I", "-W", "error", "-c", program, *arguments]
        ended = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.stderr == ""
        return ended.stdout.splitlines()

    def client_in(self, url):
        """The folder of the client that a program imports, having sent a query with it."""
        (path,) = self.run(SEND, url)
        return Path(path).relative_to(self.packages).parent.as_posix()


@pytest.fixture
def environment(tmp_path):
    return Environment(tmp_path / "venv")


def paths(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {item.filename: item.file_size for item in archive.infolist()}


def test_no_path_is_in_both_wheels(wheels):
    client, server = map(paths, wheels)
    assert client.keys() & server.keys() == set()
    sources = {path.name for path in CLIENT.iterdir() if path.is_file()}
    assert {f"ragmon/client/{name}" for name in sources} <= client.keys()
    assert {f"ragmon/_bundled/client/{name}" for name in sources} <= server.keys()


def test_what_an_application_installs_is_small(wheels):
    size = sum(paths(wheels[0]).values())
    size += sum(path.stat().st_size for path in Path(msgspec.__file__).parent.rglob("*.[ps][yo]*"))
    assert size < 2_000_000


def test_the_client_alone_needs_msgspec_alone(wheels, environment):
    environment.install(wheels[0])
    loaded = environment.run(LOADED)[0].split()
    outside = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert outside == {"ragmon"}
    # Most of the time that the import took; msgspec and what else is needed come with the first
    # monitor.
    slow = {"asyncio", "email", "http.client", "logging", "ssl", "urllib.request", "dataclasses",
            "msgspec", "hashlib", "urllib.parse", "pathlib", "decimal"}  # fmt: skip
    assert slow.isdisjoint(loaded)


def test_the_import_costs_little_more_than_that_of_msgspec_alone(wheels, environment):
    environment.install(wheels[0])
    cost = {name: environment.run(TIMED.format(name)) for name in ("msgspec", "ragmon.client")}
    least = {name: min(map(float, filter(None, lines))) for name, lines in cost.items()}
    assert least["ragmon.client"] < 1.6 * least["msgspec"]  # it was twice as much with it


def test_both_live_in_one_environment_and_either_may_go(wheels, environment):
    with FakeServer() as server:
        environment.install(wheels[1])
        assert environment.client_in(server.url) == "ragmon/_bundled/client"
        environment.install(wheels[0])
        assert environment.client_in(server.url) == "ragmon/client"
        environment.uninstall("ragmon-client")
        assert environment.client_in(server.url) == "ragmon/_bundled/client"
        environment.install(wheels[0])
        environment.uninstall("ragmon")
        assert environment.client_in(server.url) == "ragmon/client"
        assert len(server.records["queries"]) == 4


@pytest.mark.parametrize("path", sorted(CLIENT.rglob("*.py")), ids=lambda path: path.name)
def test_the_source_is_python_3_9(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    if path.name == "haystack.py":
        return  # the framework reads its annotations, which are written as 3.9 has them
    futures = [node.names[0].name for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert "annotations" in futures  # `str | None` is then text, which 3.9 does not evaluate


def test_every_python_named_by_the_environment_sends(wheels, tmp_path):
    """Interpreters with msgspec, of 3.9 to 3.14: RAGMON_CLIENT_PYTHONS=path:path."""
    pythons = os.environ.get("RAGMON_CLIENT_PYTHONS", "").split(os.pathsep)
    if not pythons[0]:
        pytest.skip("RAGMON_CLIENT_PYTHONS names no interpreters that have msgspec")
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(tmp_path)
    with FakeServer() as server:
        for python in pythons:
            environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
            command = [python, "-W", "error", "-c", SEND, server.url]
            subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=60)
        versions = [record["query"].split()[0] for record in server.records["queries"]]
        print(*versions)
        assert len(versions) == len(pythons)
