"""Which of many daemons speaks: a header beside the answers of the API."""

import socket

import pytest

from tests.support.daemons import running

HEADER = "Ragmon-Instance"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tokens = [{"name": "ops", "token": "o" * 32, "scopes": ["admin"]}]
    folder = tmp_path_factory.mktemp("named") / "data"
    with running(folder, auth__tokens=tokens, replica__name="eu-1 \u00e4") as daemon:
        yield daemon


def test_the_name_stands_beside_every_answer_of_the_api(site):
    ops = site.with_token("o" * 32)
    for path in ("/v1/report", "/v1/alerts", "/v1/queries", "/v1/queries/none"):
        assert ops.get(path).headers[HEADER] == "eu-1__"


def test_who_has_no_token_is_not_told(site):
    assert site.get("/v1/report").status == 401
    for path in ("/v1/report", "/livez", "/metrics"):
        assert HEADER not in site.get(path).headers


def test_the_default_is_the_name_of_the_host(tmp_path):
    with running(tmp_path / "data") as daemon:
        assert daemon.get("/v1/report").headers[HEADER] == socket.gethostname()
