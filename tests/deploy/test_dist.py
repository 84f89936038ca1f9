"""What a release is made of: the same bytes twice, and an image that says how it runs."""

import gzip
import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ragmon import __version__
from tests.support.paths import ROOT

_SPEC = importlib.util.spec_from_file_location("dist", ROOT / "deploy/dist.py")
dist = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(dist)

MOMENT = 1_795_000_000
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(autouse=True)
def moment(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(MOMENT))


@pytest.fixture
def base(tmp_path):
    """An OCI layout of one layer, as `skopeo copy` writes it."""
    folder = tmp_path / "base"
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(content, media):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    layer = dist.tar({"etc/base": dist.Entry(b"base\n", 0o644)}, MOMENT)
    about = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/bin", "LANG=C.UTF-8"], "Cmd": ["python3"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "config": put(json.dumps(about).encode(), CONFIG),
        "layers": [put(gzip.compress(layer), "application/vnd.oci.image.layer.v1.tar+gzip")],
    }
    index = {"schemaVersion": 2, "manifests": [put(json.dumps(manifest).encode(), MANIFEST)]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


@pytest.fixture
def packages(tmp_path):
    folder = tmp_path / "packages"
    (folder / "some/__pycache__").mkdir(parents=True)
    (folder / "some/__init__.py").write_text("x = 1\n")
    (folder / "some/__pycache__/__init__.cpython-313.pyc").write_bytes(b"of this machine")
    return folder


def made(base, packages):
    return dist.image(base, dist.application(packages), "amd64", dist.labels())


def opened(image):
    """Files of the layout by name."""
    with tarfile.open(fileobj=io.BytesIO(image)) as archive:
        return {
            entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()
        }


def blob(files, described):
    content = files["blobs/sha256/" + described["digest"].removeprefix("sha256:")]
    assert len(content) == described["size"]
    assert hashlib.sha256(content).hexdigest() == described["digest"].removeprefix("sha256:")
    return content


def test_an_image_is_the_same_twice_whatever_the_times_and_the_mask(base, packages):
    first = made(base, packages)
    for path in packages.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o777 if path.is_dir() else 0o600)
    assert made(base, packages) == first


def test_an_image_is_the_base_and_one_layer_and_says_how_it_runs(base, packages):
    files = opened(made(base, packages))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = json.loads(blob(files, described))
    about = json.loads(blob(files, manifest["config"]))
    layers = [gzip.decompress(blob(files, layer)) for layer in manifest["layers"]]
    assert len(layers) == 2
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert about["rootfs"]["diff_ids"] == digests
    run = about["config"]
    assert (run["User"], run["Entrypoint"], run["Cmd"]) == ("10001:10001", ["ragmon"], ["serve"])
    assert "PATH=/opt/ragmon/bin:/usr/local/bin:/bin" in run["Env"]
    assert "LANG=C.UTF-8" in run["Env"]
    assert run["Labels"]["org.opencontainers.image.version"] == __version__
    with tarfile.open(fileobj=io.BytesIO(layers[1])) as layer:
        assert layer.getmember("data").uid == layer.getmember("data").gid == 10001
        names = layer.getnames()
        assert layer.getmember("opt/ragmon/bin/ragmon").mode == 0o755
        assert {entry.mtime for entry in layer} == {MOMENT}
    assert "opt/ragmon/packages/some/__init__.py" in names
    assert "opt/ragmon/lib/ragmon/runbooks/RagmonDown.md" in names
    assert "usr/share/doc/ragmon/NOTICE" in names
    assert not any(name.endswith(".pyc") or "__pycache__" in name for name in names)
    parents = {str(Path(name).parent) for name in names} - {"."}
    assert parents <= set(names)


def test_the_image_runs_as_the_one_that_docker_makes():
    docker = (ROOT / "deploy/Dockerfile").read_text()
    run = dist.configuration({}, {})
    for name, value in (variable.split("=", 1) for variable in run["Env"]):
        if name not in ("PATH", "PYTHONPATH"):
            assert f"{name}={value}" in docker
    assert f"USER {run['User']}" in docker
    assert f"STOPSIGNAL {run['StopSignal']}" in docker
    assert f"EXPOSE {next(iter(run['ExposedPorts'])).removesuffix('/tcp')}" in docker
    assert f'ENTRYPOINT ["{run["Entrypoint"][0]}"]' in docker
    assert f'CMD ["{run["Cmd"][0]}"]' in docker


def test_a_damaged_base_is_refused(base, packages):
    for path in (base / "blobs/sha256").iterdir():
        path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(SystemExit, match="is damaged"):
        made(base, packages)


def test_a_base_of_another_architecture_is_refused(base, packages):
    with pytest.raises(SystemExit, match="no image for arm64"):
        dist.image(base, b"", "arm64", dist.labels())


def test_the_image_can_be_read_by_other_tools(base, packages, tmp_path):
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed")
    path = tmp_path / "image.tar"
    path.write_bytes(made(base, packages))
    command = [skopeo, "inspect", f"oci-archive:{path}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    about = json.loads(ran.stdout)
    assert about["Labels"]["org.opencontainers.image.title"] == "ragmon"
    assert len(about["Layers"]) == 2


def test_the_chart_is_the_same_twice_and_as_helm_packs_it():
    first = dist.chart()
    assert first == dist.chart()
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        names = archive.getnames()
        assert {entry.mtime for entry in archive} == {MOMENT}
    assert "ragmon/Chart.yaml" in names
    assert "ragmon/templates/statefulset.yaml" in names
    assert "ragmon/dashboards/what-broke.json" in names
    assert not any(name.startswith("ragmon/ci/") for name in names)


def test_the_wheels_and_sources_are_the_same_twice(tmp_path):
    builds = [tmp_path / "a", tmp_path / "b"]
    for folder in builds:
        dist.distributions(folder)
    names = sorted(path.name for path in builds[0].iterdir())
    assert [name.partition("-")[0] for name in names] == ["ragmon"] * 2 + ["ragmon_client"] * 2
    for name in names:
        first, second = (folder / name for folder in builds)
        assert first.read_bytes() == second.read_bytes(), name


def test_a_folder_named_from_here_gets_those_of_the_client_too(tmp_path, monkeypatch):
    """`make dist` names it so; beside the client's sources they would go into the next release."""
    monkeypatch.chdir(tmp_path)
    dist.distributions(Path("built"))
    assert len(list(Path("built").glob("ragmon_client-*"))) == 2
    assert len(list(Path("built").iterdir())) == 4


def test_the_versions_of_chart_and_program_are_one():
    assert dist.version() == __version__


def test_it_says_what_it_needs():
    command = [sys.executable, str(ROOT / "deploy/dist.py"), "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "OCI layout of the base" in ran.stdout


def test_no_document_installs_ragmon_from_an_index():
    """Nothing is published: extras are installed from a copy of the repository."""
    forms = ("*.md", "deploy/**/*.md", "helm/**/*.md", "helm/**/*.txt", "deploy/**/*.service")
    pages = [page for form in forms for page in ROOT.glob(form)]
    assert len(pages) > 60
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    installs = [line for line in lines if "pip install" in line]
    assert len(installs) >= 10
    assert [
        line for line in installs if "install 'ragmon" in line or "install ragmon" in line
    ] == []
    assert [line for line in lines if "docker pull" in line] == []
