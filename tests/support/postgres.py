"""A real PostgreSQL for all tests of a process, started in a second; each has its own schema."""

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.support.wait import eventually

_TOOLS = Path(__file__).parents[2] / ".venv/tools"
_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)
_numbers = itertools.count(1)


def find(version: str = "") -> Path | None:
    """The folder of a server's programs; of a version, or the newest of the system."""
    if version:
        own = _TOOLS / f"postgresql-{version}/bin"
        return own if (own / "postgres").exists() else None
    folders = [each for name in _FOLDERS for each in Path("/").glob(name.lstrip("/"))]
    there = [each for each in folders if (each / "postgres").exists()]
    if there:
        return max(there, key=lambda each: each.parent.name.zfill(9))
    path = shutil.which("postgres")
    return Path(path).resolve().parent if path else None


def needed(version: str = "") -> Path:
    """``find``; where it is missing, a skip on a laptop and a failure in CI.

    A version beside the system's is never more than a skip.
    """
    programs = find(version)
    if programs is None:
        missing = f"PostgreSQL {version} is not installed; run `make tools`"
        if os.environ.get("CI") == "true" and not version:
            pytest.fail(missing)
        pytest.skip(missing)
    return programs


class PostgresServer:
    """A server with a socket in a folder of its own; it forgets everything when it ends."""

    def __init__(self, programs: Path, *flags: str) -> None:
        self._programs = programs
        self._flags = flags
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path is limited
        self._user = None if os.geteuid() else 65_534  # it refuses to run as root
        if self._user is not None:
            os.chown(self.folder, self._user, self._user)
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self.data), "-U", "ragmon", "--auth=trust", "--no-sync",
            "--encoding=UTF8", "--locale=C", "--no-instructions",
        )  # fmt: skip
        rules = self.data / "pg_hba.conf"
        rules.write_text("local all with_password scram-sha-256\nlocal all all trust\n")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"), "-D", str(self.data), "-k", str(self.folder),
                    "-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off",
                    "-c", "shared_buffers=32MB", "-c", "max_connections=60",
                    *(word for flag in self._flags for word in ("-c", flag)),
                ],
                stdout=log, stderr=log, user=self._user, group=self._user,
                extra_groups=[] if self._user else None, cwd=self.folder,
            )  # fmt: skip
        eventually(self._answers, timeout_s=60)

    def kill(self) -> None:
        """End it as a crash does: every process at once."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGINT)

    def keep_copy(self) -> None:
        """Keep its files as they are now, as a standby that falls behind has them."""
        self.stop()
        self._copy(self.data, self.folder / "behind")
        self.start()

    def fail_over(self) -> None:
        """End it, and go on with the copy: what was committed since is forgotten."""
        self.kill()
        shutil.rmtree(self.data)
        self._copy(self.folder / "behind", self.data)
        self.start()

    def remove(self) -> None:
        """End it, and delete its files."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", user: str = "ragmon", password: str = "") -> str:
        """The address of a database."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def execute(self, sql: str, values: Sequence[object] = (), database: str = "postgres") -> list:
        """The rows of a statement, as the owner of everything."""
        with psycopg.connect(self.url(database), autocommit=True) as link:
            cursor = link.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text(encoding="utf-8")
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _copy(self, source: Path, target: Path) -> None:
        subprocess.run(["cp", "-a", source, target], check=True)  # with its owner

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(60)

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._programs / name), *words],
            capture_output=True, text=True, check=False, cwd=self.folder,
            user=self._user, group=self._user, extra_groups=[] if self._user else None,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


@cache
def _shared(programs: Path) -> PostgresServer:
    server = PostgresServer(programs)
    atexit.register(server.remove)
    server.start()
    return server


def shared_server(version: str = "") -> PostgresServer:
    """The server that all tests of this process share; none of them stops it."""
    return _shared(needed(version))


def new_schema() -> str:
    """A name that no other test has."""
    return f"test_{next(_numbers)}"
