"""The image says what it is made of."""

import importlib.util
import json

import pytest

from tests.support import golden
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
_SPEC = importlib.util.spec_from_file_location("bill", DEPLOY / "bill_of_materials.py")
bill = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bill)

LOCK = (DEPLOY / "requirements.lock").read_text(encoding="utf-8")
SMALL = """certifi==2026.10.18 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via requests
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{a}
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:{a}
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:{b}
""".format(a="a" * 64, b="b" * 64)


def test_the_lock_is_read_for_the_image():
    certifi, numpy = bill.packages(SMALL)
    assert (certifi.name, certifi.version) == ("certifi", "2026.10.18")
    assert certifi.sha256 == ("a" * 64, "b" * 64)
    assert "MPL" in certifi.licence
    assert (numpy.version, numpy.sha256) == ("2.5.5", ("b" * 64,))


def test_every_package_of_the_lock_is_in_it():
    names = {line.partition("==")[0] for line in LOCK.splitlines() if "==" in line.split(" ")[0]}
    assert len(names) > 20
    listed = bill.packages(LOCK)
    assert {package.name for package in listed} <= names
    assert len(listed) > len(names) - 5
    assert [package.name for package in listed if not package.licence or not package.sha256] == []


def test_the_notice_is_that_of_the_lock():
    golden.same("NOTICE", bill.notice(bill.packages(LOCK)), DEPLOY)


def test_the_bill_is_cyclone_dx_and_the_same_each_time():
    listed = bill.packages(LOCK)
    made = bill.sbom(listed, "1.2.3")
    assert json.dumps(made) == json.dumps(bill.sbom(listed, "1.2.3"))
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made["metadata"]["component"]["version"] == "1.2.3"
    references = [component["bom-ref"] for component in made["components"]]
    assert len(set(references)) == len(references) == len(listed)
    assert made["dependencies"][0]["dependsOn"] == references
    assert all(reference.startswith("pkg:pypi/") for reference in references)


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(SystemExit, match="unheard-of is not installed"):
        bill.packages(f"unheard-of==1.0 \\\n    --hash=sha256:{'a' * 64}\n")


def test_the_image_holds_the_notice():
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "deploy/NOTICE" in dockerfile
    assert "!deploy/NOTICE" in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    assert dockerfile.count("FROM ${BASE}") == 2
