"""A real pgbouncer before a test's PostgreSQL, in transaction mode."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.wait import eventually

_PORT = 6432  # of the name of its socket


def needed() -> str:
    """The program; where it is missing, a skip on a laptop and a failure in CI."""
    path = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if path is None:
        missing = "pgbouncer is not installed; run `make tools`"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path


@contextmanager
def pgbouncer(server: PostgresServer) -> Iterator[str]:
    """The address of the database through a pooler that runs; each transaction gets any session."""
    folder = server.folder / "pooled"
    folder.mkdir()
    user = None if os.geteuid() else 65_534  # it refuses to run as root
    if user is not None:
        os.chown(folder, user, user)
    (folder / "users").write_text('"ragmon" ""\n', encoding="utf-8")
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\npostgres = host={server.folder} user=ragmon dbname=postgres\n"
        f"[pgbouncer]\nlisten_addr =\nlisten_port = {_PORT}\nunix_socket_dir = {folder}\n"
        f"auth_type = any\nauth_file = {folder}/users\npool_mode = transaction\n"
        "default_pool_size = 3\nserver_round_robin = 1\n",
        encoding="utf-8",
    )
    folder.chmod(0o755)  # commands that ran in this process may have set a mask
    for file in folder.iterdir():
        file.chmod(0o644)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([needed(), str(config)], stdout=log, stderr=log, user=user)
    url = f"postgresql://ragmon@/postgres?host={folder}&port={_PORT}"

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        eventually(answers, "the pooler answers", 30)
        yield url
    finally:
        process.terminate()
        process.wait(10)
