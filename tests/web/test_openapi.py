"""The OpenAPI document: generated, committed for the documentation, served, and complete."""

import re
from pathlib import Path

import msgspec
import pytest

from ragmon.clock import ManualClock
from ragmon.sources.http import ENDPOINTS as INGEST
from ragmon.sources.otlp.receiver.source import PATHS as OTLP
from ragmon.web import openapi
from ragmon.web.alerts import AlertSection
from ragmon.web.api import Api
from ragmon.web.audit import AuditSection
from ragmon.web.baselines import BaselineSection
from ragmon.web.comparison import ComparisonSection
from ragmon.web.documents import DocumentSection
from ragmon.web.erasure import ErasureSection
from ragmon.web.judge_reports import JudgeReportSection
from ragmon.web.judge_runs import JudgeSection
from ragmon.web.pages.login import LoginSection
from ragmon.web.pages.sections import page_sections
from ragmon.web.quarantine import QuarantineSection
from ragmon.web.series import SeriesSection
from ragmon.web.tokens import TokenSection
from tests.support import golden
from tests.support.limits import body_limits

REFERENCE = Path(__file__).parents[2] / "deploy" / "docs" / "reference"


def operations() -> dict[tuple[str, str], dict]:
    return {
        (method.upper(), path): operation
        for path, methods in openapi.document()["paths"].items()
        for method, operation in methods.items()
    }


def test_the_documentation_has_the_document():
    text = msgspec.json.format(msgspec.json.encode(openapi.document()), indent=1).decode()
    golden.same("openapi.json", text + "\n", REFERENCE)


def test_it_is_served_without_a_token(daemon):
    answer = daemon.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == openapi.encoded()


def test_every_route_is_in_it():
    sections = [
        *page_sections(
            None,
            None,
            None,
            None,
            None,
            comparisons=None,
            labels=None,
            judges=None,
            service=None,
            documents=None,
            judge_reports=None,
            topics=None,
            traces=None,
        ),
        DocumentSection(None),
        LoginSection(None, ManualClock(0.0), None, "", None),
        SeriesSection(None),
        ComparisonSection(None),
        AlertSection(None, None),
        BaselineSection(None, None),
        JudgeReportSection(None),
        JudgeSection(None, None, None),
        TokenSection(None),
        ErasureSection(None),
        AuditSection(None, None),
        QuarantineSection(None),
    ]
    api = Api(None, None, None, limits=body_limits(), more=sections)
    routes = {
        (method, re.sub(":path}", "}", route.path))
        for route in api.application().routes
        for method in route.methods - {"HEAD"}
    }
    assert ("GET", "/v1/report") in routes
    routes |= {("POST", path) for path in [*INGEST, *OTLP]}
    routes |= {("GET", path) for path in OTLP if path.endswith("/v1/traces")}
    assert routes == set(operations())


def test_every_path_parameter_is_described():
    for (method, path), operation in operations().items():
        described = {each["name"] for each in operation.get("parameters", []) if each["required"]}
        assert set(re.findall("{(.*?)}", path)) == described, f"{method} {path}"


def test_every_reference_leads_somewhere():
    document = openapi.document()
    references = re.findall(r'"#/(components/[^"]+)"', msgspec.json.encode(document).decode())
    assert len(references) > 50
    for reference in references:
        _, kind, name = reference.split("/")
        assert name in document["components"][kind], reference


def test_names_of_operations_are_unique():
    names = [operation["operationId"] for operation in operations().values()]
    assert len(names) == len(set(names)) == len(openapi.ENDPOINTS)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        pytest.param("QueryRecord", "chunks", id="what is sent"),
        pytest.param("Report", "from", id="what is answered, by the name it has in JSON"),
        pytest.param("TraceExplanation", "verdict", id="what the OTLP source answers"),
        pytest.param("ProblemDetails", "detail", id="errors"),
    ],
)
def test_schemas_have_the_members_of_the_structs(name, member):
    assert member in openapi.document()["components"]["schemas"][name]["properties"]


@pytest.mark.parametrize("path", ["/queries?until=soon", "/v1/queries?until=soon"])
def test_the_type_of_a_refusal_is_in_it(daemon, path):
    answer = daemon.get(path)
    assert answer.status == 400
    responses = operations()["GET", path.partition("?")[0]]["responses"]["400"]
    if "$ref" in responses:
        name = responses["$ref"].rpartition("/")[2]
        responses = openapi.document()["components"]["responses"][name]
    assert answer.headers["content-type"].partition(";")[0] in responses["content"]
