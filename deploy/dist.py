"""Everything of a release, into a folder: the same bytes from the same commit, wherever it is made.

    python deploy/dist.py dist --base python-base    # python-base: an OCI layout, see `make dist`

Wheels and source distributions of ragmon and its client, the chart, the image as an OCI layout in
a tar file, the bill of materials (CycloneDX) and SHA256SUMS. No daemon is needed and nothing is
run in the image: the packages of deploy/requirements.lock are unpacked for the Python of the base,
and put with ragmon into one layer above it.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
USER = 10001
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_LAUNCHER = b'#!/bin/sh\nexec python -m ragmon "$@"\n'
_SOURCE = "https://github.com/ragmon/ragmon"


class Entry(NamedTuple):
    """One file or folder of an archive."""

    content: bytes | None  # None: a folder
    mode: int
    owner: int = 0


def version() -> str:
    """The version of this tree.

    Raises:
        SystemExit: the chart is of another.
    """
    text = (ROOT / "ragmon/__init__.py").read_text(encoding="utf-8")
    (own,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    chart = (ROOT / "helm/ragmon/Chart.yaml").read_text(encoding="utf-8")
    for stated in re.findall(r'^(?:version|appVersion): "?([^"\n]+)"?$', chart, re.MULTILINE):
        if stated != own:
            raise SystemExit(f"Chart.yaml says {stated}, ragmon {own}: make them equal")
    return str(own)


def commit_time() -> int:
    """Time of the commit, which every file in an archive gets; SOURCE_DATE_EPOCH goes before."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return int(ran.stdout)


# ---- archives ----------------------------------------------------------------------------------


def tar(entries: Mapping[str, Entry], moment: int) -> bytes:
    """A tar file in the order of names, without users' names, every file of the same time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in sorted(entries.items()):
            about = tarfile.TarInfo(name)
            about.mtime, about.mode = moment, entry.mode
            about.uid = about.gid = entry.owner
            if entry.content is None:
                about.type = tarfile.DIRTYPE
                archive.addfile(about)
            else:
                about.size = len(entry.content)
                archive.addfile(about, io.BytesIO(entry.content))
    return out.getvalue()


def packed(content: bytes) -> bytes:
    """Compressed by gzip, without a time or name."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def tree(folder: Path, inside: str, *, without: frozenset[str] = frozenset()) -> dict[str, Entry]:
    """The files of a folder under another name, and the folders that they stand in.

    Args:
        folder: to read.
        inside: path in the archive.
        without: names of files and folders that are left out.
    """
    entries: dict[str, Entry] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not without & {*parts} and path.suffix != ".pyc":
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            entries["/".join([inside, *parts])] = Entry(path.read_bytes(), mode)
    return with_parents(entries)


def with_parents(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The same with the folders above every file."""
    folders = {
        name[:at]: Entry(None, 0o755)
        for name in entries
        for at in (match.start() for match in re.finditer("/", name))
    }
    return folders | dict(entries)


def chart() -> bytes:
    """The chart as `helm package` makes it, but for its times."""
    ignored = (ROOT / "helm/ragmon/.helmignore").read_text(encoding="utf-8").split()
    names = frozenset(name.rstrip("/") for name in ignored if "*" not in name)
    entries = tree(ROOT / "helm/ragmon", "ragmon", without=names)
    files = {name: entry for name, entry in entries.items() if entry.content is not None}
    return packed(tar(files, commit_time()))  # Helm 3.10 knows no folders


# ---- image -------------------------------------------------------------------------------------


class Layout:
    """Blobs of an OCI layout: those of a base, and what is put above it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.blobs: dict[str, bytes] = {}

    def read(self, digest: str) -> bytes:
        """A blob of the base.

        Raises:
            SystemExit: it is not what its digest says.
        """
        content = (self._folder / "blobs" / digest.replace(":", "/")).read_bytes()
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise SystemExit(f"{digest} in {self._folder} is damaged: fetch the base again")
        return content

    def manifest(self, architecture: str) -> dict[str, Any]:
        """The manifest of the base for an architecture.

        Raises:
            SystemExit: there is none.
        """
        index = json.loads((self._folder / "index.json").read_bytes())
        for described in index["manifests"]:
            inner = json.loads(self.read(described["digest"]))
            if "manifests" in inner:
                index["manifests"] += inner["manifests"]
                continue
            about = json.loads(self.read(inner["config"]["digest"]))
            if about["architecture"] == architecture:
                return dict(inner)
        raise SystemExit(f"{self._folder} holds no image for {architecture}")

    def add(self, content: bytes, media: str) -> dict[str, Any]:
        """Put a blob in, and describe it."""
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}


def image(base: Path, layer: bytes, architecture: str, labels: Mapping[str, str]) -> bytes:
    """An OCI layout as a tar file: the base, and one layer above it.

    Args:
        base: folder of an OCI layout.
        layer: tar file.
        architecture: amd64 or arm64.
        labels: of the image.
    """
    moment = commit_time()
    layout = Layout(base)
    manifest = layout.manifest(architecture)
    about = json.loads(layout.read(manifest["config"]["digest"]))
    for described in manifest["layers"]:
        layout.add(layout.read(described["digest"]), described["mediaType"])
    added = layout.add(packed(layer), _LAYER)
    created = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about["created"] = created
    about["config"] = configuration(about.get("config") or {}, labels)
    about["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(layer).hexdigest()}")
    about.setdefault("history", []).append({"created": created, "created_by": "deploy/dist.py"})
    top = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": layout.add(_json(about), _CONFIG),
        "layers": [*manifest["layers"], added],
        "annotations": dict(labels),
    }
    described = layout.add(_json(top), _MANIFEST) | {
        "platform": {"os": "linux", "architecture": architecture},
        "annotations": {
            "org.opencontainers.image.ref.name": labels["org.opencontainers.image.version"]
        },
    }
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}
    files = layout.blobs | {
        "index.json": _json(index),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
    }
    entries = {name: Entry(content, 0o644) for name, content in files.items()}
    return tar(with_parents(entries), moment)


def configuration(base: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """How a container runs: as deploy/Dockerfile says."""
    own = {
        "PYTHONPATH": "/opt/ragmon/lib:/opt/ragmon/packages",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RAGMON_HOST": "0.0.0.0",  # noqa: S104 - refused without a token
        "RAGMON_DATA_DIR": "/data",
    }
    given = dict(line.split("=", 1) for line in base.get("Env") or ())
    path = given.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    variables = given | own | {"PATH": f"/opt/ragmon/bin:{path}"}
    return dict(base) | {
        "User": f"{USER}:{USER}",
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "WorkingDir": "/data",
        "Volumes": {"/data": {}},
        "ExposedPorts": {"8321/tcp": {}},
        "StopSignal": "SIGTERM",
        "Entrypoint": ["ragmon"],
        "Cmd": ["serve"],
        "Labels": dict(labels),
    }


def application(packages: Path) -> bytes:
    """The layer: ragmon, what it needs, its launcher, its user's folder and its licences."""
    trees = {
        "ragmon": "lib/ragmon",
        "deploy/prometheus/rules": "lib/ragmon/prometheus",
        "deploy/runbooks": "lib/ragmon/runbooks",
        "grafana/dashboards": "lib/ragmon/dashboards",
    }
    entries = tree(packages, "opt/ragmon/packages", without=frozenset({"__pycache__", "bin"}))
    for source, place in trees.items():
        entries |= tree(ROOT / source, f"opt/ragmon/{place}", without=frozenset({"__pycache__"}))
    licences = {"LICENSE": ROOT / "LICENSE", "NOTICE": ROOT / "deploy/NOTICE"}
    for name, path in licences.items():
        entries[f"usr/share/doc/ragmon/{name}"] = Entry(path.read_bytes(), 0o644)
    entries["opt/ragmon/bin/ragmon"] = Entry(_LAUNCHER, 0o755)
    entries["data"] = Entry(None, 0o755, owner=USER)
    return tar(with_parents(entries), commit_time())


def unpack_packages(target: Path, architecture: str, python: str) -> None:
    """The locked packages for the Python of the base, by their hashes."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(target)),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"),
        *("--python-platform", f"{_ARCHITECTURES[architecture]}-manylinux_2_28"),
        *("--python-version", python, "--requirement", str(ROOT / "deploy/requirements.lock")),
    ]
    subprocess.run(command, check=True)  # noqa: S603 - our own words
    for record in target.glob("*.dist-info/*"):
        if record.name in ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED"):
            record.unlink()  # they name the machine that unpacked it


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


# ---- the whole -----------------------------------------------------------------------------------


def labels() -> dict[str, str]:
    """Labels of the image."""
    return {
        "org.opencontainers.image.title": "ragmon",
        "org.opencontainers.image.description": "Production monitoring agent for RAG systems",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": _SOURCE,
        "org.opencontainers.image.version": version(),
    }


def distributions(target: Path) -> None:
    """Wheels and source distributions of ragmon and of its client."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target.resolve())]
    for place in (ROOT, ROOT / "deploy/client"):
        subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True)  # noqa: S603


def release(target: Path, base: Path | None, architecture: str, python: str) -> None:
    """Everything, and the checksums."""
    target.mkdir(parents=True)
    own = version()
    distributions(target)
    (target / f"ragmon-{own}.tgz").write_bytes(chart())
    script = [sys.executable, str(ROOT / "deploy/bill_of_materials.py"), "sbom"]
    bill = subprocess.run(script, cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603
    (target / f"ragmon-{own}.cdx.json").write_bytes(bill)
    if base is not None:
        with tempfile.TemporaryDirectory() as scratch:
            packages = Path(scratch, "packages")
            unpack_packages(packages, architecture, python)
            built = image(base, application(packages), architecture, labels())
        (target / f"ragmon-{own}-image-{architecture}.tar").write_bytes(built)
    sums = "".join(f"{digest}  {name}\n" for name, digest in _digests(target))
    (target / "SHA256SUMS").write_text(sums, encoding="ascii")


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            yield path.name, hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Make it; a folder that is there is replaced when all is made."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("target", type=Path, help="folder, which is replaced")
    parser.add_argument("--base", type=Path, help="OCI layout of the base; without, no image")
    parser.add_argument("--architecture", choices=_ARCHITECTURES, default="amd64")
    parser.add_argument("--python", default="3.13", help="of the base (default 3.13)")
    args = parser.parse_args()
    fresh = args.target.with_name(args.target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    release(fresh, args.base, args.architecture, args.python)
    shutil.rmtree(args.target, ignore_errors=True)
    fresh.rename(args.target)
    sys.stdout.write((args.target / "SHA256SUMS").read_text(encoding="ascii"))
    if args.base is None:
        sys.stderr.write("no image: give --base, the OCI layout of a Python image\n")


if __name__ == "__main__":
    main()
