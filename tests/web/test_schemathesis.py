"""The OpenAPI document against the running daemon, by schemathesis."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragmon.web import openapi
from tests.support.daemons import running

pytestmark = pytest.mark.end_to_end

# What is refused beyond the schema, and fields that are ignored, no schema can say.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
)


def schemathesis(url, document, *arguments):
    command = [Path(sys.executable).with_name("schemathesis"), "run", document, "--url", url]
    command += ["--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing"]
    command += ["--max-examples", "2", "--seed", "1", "--no-color", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=400, check=False, cwd=document.parent
    )


@pytest.fixture
def site(tmp_path):
    with running(tmp_path / "data") as built:
        yield built


def written(path, document):
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.timeout(480)
def test_the_daemon_answers_as_the_document_says(site, tmp_path):
    result = schemathesis(site.url, written(tmp_path / "openapi.json", openapi.document()))
    assert result.returncode == 0, result.stdout[-8_000:] + result.stderr[-2_000:]
    count = len(openapi.ENDPOINTS)
    assert f"Selected: {count}/{count}" in result.stdout
    assert f"Tested: {count}" in result.stdout


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        pytest.param(
            lambda report: report["content"].update(
                {"application/json": {"schema": {"type": "string"}}}
            ),
            "Response violates schema",
            id="another schema",
        ),
        pytest.param(
            lambda report: report["content"].update(
                {"text/html": report["content"].pop("application/json")}
            ),
            "Undocumented Content-Type",
            id="another media type",
        ),
    ],
)
def test_a_document_that_lies_is_found(site, tmp_path, lie, found):
    document = json.loads(json.dumps(openapi.document()))
    lie(document["paths"]["/v1/report"]["get"]["responses"]["200"])
    result = schemathesis(
        site.url, written(tmp_path / "openapi.json", document), "--include-path", "/v1/report"
    )
    assert result.returncode == 1, result.stdout[-4_000:] + result.stderr[-2_000:]
    assert found in result.stdout
