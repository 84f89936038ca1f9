"""`.ci/release`: what it checks, compares, signs and publishes, with stand-ins for its programs."""

import os
import shutil
import subprocess

import pytest

from ragmon import __version__
from tests.support.paths import ROOT

DIGEST = "sha256:" + "0" * 63 + "1"
BASE = "docker.io/library/python:3.13@sha256:" + "a" * 64
SIGNED = f"ghcr.io/ragmon/ragmon@{DIGEST}"
_STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0") $*" in
    "make dist"*) mkdir dist; echo "${SUMS:-$(ls -d dist* | wc -l)}" > dist/SHA256SUMS ;;
    "grype "*) exit "${FOUND:-0}" ;;
    "skopeo copy"*) echo "$DIGEST" > dist/image.digest ;;
esac
"""


class Release:
    """A checkout at its tag, and the calls that its release makes."""

    def __init__(self, folder):
        self._calls = folder / "calls"
        self._programs = folder / "programs"
        self._programs.mkdir()
        for name in ("make", "grype", "skopeo", "cosign", "helm", "twine", "gh"):
            self._program(self._programs / name)
        self.root = folder / "checkout"
        (self.root / ".ci").mkdir(parents=True)
        (self.root / "ragmon").mkdir()
        shutil.copy(ROOT / ".ci/release", self.root / ".ci/release")
        self._program(self.root / ".ci/run")
        (self.root / "ragmon/__init__.py").write_text(f'__version__ = "{__version__}"\n')
        (self.root / "CHANGELOG.md").write_text(f"## {__version__} (2026-11-23)\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "a")
        self.git("tag", f"v{__version__}")

    def git(self, *command):
        subprocess.run(["git", "-C", str(self.root), *command], check=True, timeout=30)

    def run(self, **environment):
        """Exit status, and the calls as lines."""
        found = f"{self._programs}:{os.environ['PATH']}"
        own = {"PATH": found, "CALLS": str(self._calls), "DIGEST": DIGEST, "SUMS": "same"}
        ran = subprocess.run(
            [self.root / ".ci/release"],
            env=own | environment,
            timeout=60,
            capture_output=True,
            check=False,
        )
        calls = self._calls.read_text().splitlines() if self._calls.exists() else []
        return ran.returncode, calls

    def _program(self, path):
        path.write_text(_STAND_IN)
        path.chmod(0o755)


@pytest.fixture
def release(tmp_path):
    return Release(tmp_path)


def test_without_being_told_nothing_leaves_the_machine(release):
    status, calls = release.run(BASE=BASE)
    assert status == 0
    assert calls == ["run ", f"make dist BASE={BASE}", f"make dist BASE={BASE}"]


def test_the_image_is_signed_and_attested_by_the_digest_that_was_pushed(release):
    status, calls = release.run(BASE=BASE, PUBLISH="yes")
    assert status == 0
    published = calls[4:]
    assert [call.split()[0] for call in published] == [
        "skopeo", "cosign", "cosign", "helm", "twine", "cosign", "gh",
    ]  # fmt: skip
    assert "--digestfile dist/image.digest" in published[0]
    assert published[1] == f"cosign sign --yes {SIGNED}"
    bill = f"--type cyclonedx --predicate dist/ragmon-{__version__}.cdx.json"
    assert published[2] == f"cosign attest --yes {bill} {SIGNED}"
    assert published[5] == (
        "cosign sign-blob --yes --bundle dist/SHA256SUMS.bundle dist/SHA256SUMS"
    )
    assert "dist/SHA256SUMS.bundle" in published[6] or "dist/SHA256SUMS" in published[6]
    assert f"v{__version__} --verify-tag" in published[6]


def test_what_the_image_holds_is_scanned_before_anything_is_published(release):
    bill = f"sbom:dist/ragmon-{__version__}.cdx.json"
    status, calls = release.run(BASE=BASE, PUBLISH="yes", FOUND="1")
    assert status == 1
    assert calls[3:] == [f"grype {bill} --only-fixed --fail-on high"]


@pytest.mark.parametrize(
    ("environment", "status"),
    [
        pytest.param({}, 1, id="no base"),
        pytest.param({"BASE": "docker.io/library/python:3.13"}, 2, id="a base without a digest"),
    ],
)
def test_a_base_that_could_change_is_refused(release, environment, status):
    assert release.run(**environment) == (status, [])


def test_two_builds_that_differ_are_not_published(release):
    status, calls = release.run(BASE=BASE, PUBLISH="yes", SUMS="")
    assert status == 1
    assert len(calls) == 3


@pytest.mark.parametrize("change", ["a file", "another commit", "no date"])
def test_only_the_tagged_commit_is_released(release, change):
    if change == "a file":
        (release.root / "more").write_text("x")
    else:
        (release.root / "CHANGELOG.md").write_text(f"## {__version__} (unreleased)\n")
        release.git(
            "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qam", "later"
        )
    if change == "no date":
        release.git("tag", "-f", f"v{__version__}")
    assert release.run(BASE=BASE, PUBLISH="yes") == (2, [])
