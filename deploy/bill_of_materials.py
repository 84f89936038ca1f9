"""NOTICE and software bill of materials (CycloneDX 1.6) of the image, from its lock file.

    python deploy/bill_of_materials.py notice > deploy/NOTICE
    python deploy/bill_of_materials.py sbom > sbom.cdx.json

Versions and hashes are the lock's; licences are what the installed packages declare.
"""

import json
import re
import sys
import uuid
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

LOCK = Path(__file__).with_name("requirements.lock")
_ENTRY = re.compile(r"^(\S+==[^\\\n]+?) *\\\n((?: +--hash=\S+(?: \\)?\n)+)", re.MULTILINE)
_NAMESPACE = uuid.UUID("8a1f7d0e-5f2a-4d55-9d7e-4f1d2f0a6c11")
_PREFIX = "License :: OSI Approved :: "
_IMAGE = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "python_version": "3.13",
    "python_full_version": "3.13.0",
}


class Package(NamedTuple):
    """One package of the image."""

    name: str
    version: str
    sha256: tuple[str, ...]  # of every file that the lock accepts
    licence: str


def packages(lock: str) -> list[Package]:
    """The packages that a lock file installs in the image.

    Raises:
        SystemExit: one of them is not installed here, so its licence is not known.
    """
    listed = []
    for requirement, hashes in _ENTRY.findall(lock):
        wanted = Requirement(requirement)
        if wanted.marker is None or wanted.marker.evaluate(_IMAGE):
            version = next(iter(wanted.specifier)).version
            digests = tuple(re.findall("sha256:([0-9a-f]{64})", hashes))
            listed.append(Package(wanted.name, version, digests, _licence(wanted.name)))
    return listed


def notice(listed: list[Package]) -> str:
    """The text of NOTICE."""
    head = (
        "ragmon\nLicensed under the Apache License, Version 2.0.\n\n"
        "The container image bundles Python and the packages below, each under its own licence. "
        "The text of\neach lies in the image, in /opt/ragmon/lib/python*/site-packages/"
        "NAME-VERSION.dist-info.\n"
    )
    lines = [f"{package.name} {package.version}: {package.licence}" for package in listed]
    return "\n".join([head, *lines]) + "\n"


def sbom(listed: list[Package], version: str) -> dict[str, Any]:
    """The bill of materials; the same lock gives the same one."""
    content = "\n".join(f"{package.name}=={package.version}" for package in listed)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "ragmon",
                "name": "ragmon",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(package) for package in listed],
        "dependencies": [{"ref": "ragmon", "dependsOn": [_purl(package) for package in listed]}],
    }


def _component(package: Package) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package.name,
        "version": package.version,
        "purl": _purl(package),
        "licenses": [{"license": {"name": package.licence}}],
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.sha256],
            }
        ],
    }


def _purl(package: Package) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _licence(name: str) -> str:
    """The declared licence."""
    try:
        about = distribution(name).metadata
    except PackageNotFoundError:
        raise SystemExit(f"{name} is not installed here: run `make check` first") from None
    classified = sorted(
        line.removeprefix(_PREFIX)
        for line in about.get_all("Classifier") or ()
        if line.startswith(_PREFIX)
    )
    declared = about.get("License") or ""
    is_name = 0 < len(declared) < 80 and "\n" not in declared
    stated = about.get("License-Expression") or (declared if is_name else " or ".join(classified))
    return stated or "see its text"


if __name__ == "__main__":
    from ragmon import __version__

    bundled = packages(LOCK.read_text(encoding="utf-8"))
    if sys.argv[1:] == ["notice"]:
        sys.stdout.write(notice(bundled))
    elif sys.argv[1:] == ["sbom"]:
        sys.stdout.write(json.dumps(sbom(bundled, __version__), indent=2) + "\n")
    else:
        sys.exit(__doc__)
