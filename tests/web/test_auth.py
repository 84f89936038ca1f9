"""Who may do what: tokens, scopes, the loopback rule, and what stays open."""

import base64
import hashlib
import subprocess

import pytest

from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.build import check_exposure
from ragmon.daemon.tokens import grants
from ragmon.errors import SettingsError
from ragmon.web.auth import Authorizer
from tests.support.daemons import running
from tests.support.http import PROBLEM
from tests.support.tools import program

INGEST, READ, ADMIN, FILED = "ingest-secret", "read-secret", "admin-secret", "filed-secret"
HASHED = hashlib.sha256(b"hashed-secret").hexdigest()


def settings(**given):
    flags = {name.replace("__", "."): value for name, value in given.items()}
    return load(None, flags, {}).settings


def tokens(tmp_path):
    filed = tmp_path / "token"
    filed.write_text(f"{FILED}\n", encoding="utf-8")
    return [
        {"name": "app", "token": INGEST},
        {"name": "grafana", "token": READ, "scopes": ["read"]},
        {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
        {"name": "both", "token_file": str(filed), "scopes": ["ingest", "read"]},
        {"name": "hashed", "sha256": HASHED, "scopes": ["read"]},
    ]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    path = tmp_path_factory.mktemp("guarded")
    with running(path / "data", auth__tokens=tokens(path)) as site:
        yield site


SEND = ("POST", "/v1/queries")
RATE = ("POST", "/v1/feedback")
LABEL = ("POST", "/v1/labels")
REPORT = ("GET", "/v1/report")
LIST = ("GET", "/v1/queries")
PAGE = ("GET", "/")


@pytest.mark.parametrize(
    ("token", "asked", "status"),
    [
        *(pytest.param(INGEST, asked, 200, id=f"ingest {asked[1]}") for asked in (SEND,)),
        *(pytest.param(INGEST, asked, 403, id=f"ingest {asked[1]}") for asked in (REPORT, PAGE)),
        pytest.param(INGEST, LIST, 403, id="ingest may send queries, not read them"),
        *(
            pytest.param(READ, asked, 403, id=f"read may not {asked[1]}")
            for asked in (SEND, RATE, LABEL)
        ),
        *(pytest.param(READ, asked, 200, id=f"read {asked[1]}") for asked in (REPORT, LIST, PAGE)),
        *(pytest.param(ADMIN, asked, 200, id=f"admin {asked}") for asked in (SEND, REPORT)),
        *(pytest.param(FILED, asked, 200, id=f"a token file {asked}") for asked in (SEND, REPORT)),
        pytest.param("hashed-secret", REPORT, 200, id="known by its hash alone"),
        pytest.param(HASHED, REPORT, 401, id="the hash is not the token"),
        *(pytest.param("", asked, 401, id=f"nobody {asked}") for asked in (SEND, REPORT, PAGE)),
        pytest.param("wrong", SEND, 401, id="an unknown token"),
        pytest.param(INGEST + "x", SEND, 401, id="nearly"),
        pytest.param(INGEST.upper(), SEND, 401, id="in capitals"),
    ],
)
def test_a_token_does_what_its_scopes_say(guarded, token, asked, status):
    site = guarded.with_token(token)
    answer = site.request(*asked, b"{}" if asked[0] == "POST" else None)
    assert answer.status == status
    if status in (401, 403):
        assert answer.headers["content-type"] == PROBLEM
        assert ("www-authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(f"bearer {INGEST}", id="small letters"),
        pytest.param(f"BEARER  {INGEST} ", id="spaces"),
    ],
)
def test_the_scheme_is_read_generously(guarded, authorization):
    answer = guarded.post("/v1/queries", b"{}", authorization=authorization)
    assert answer.status == 200


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(INGEST, id="no scheme"),
        pytest.param(f"Basic {INGEST}", id="another scheme"),
        pytest.param("Bearer", id="no token"),
        pytest.param("Bearer ", id="an empty token"),
        pytest.param("Bearer \xff\xfe", id="no ASCII"),
        pytest.param("Bearer " + "x" * 10_000, id="a long one"),
    ],
)
def test_other_credentials_are_401(guarded, authorization):
    answer = guarded.post("/v1/queries", b"{}", authorization=authorization)
    assert answer.status == 401
    assert INGEST not in answer.text


def basic(password: str, user: str = "ann") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "asked", "status"),
    [
        pytest.param(basic(READ), PAGE, 200, id="a read token opens the page"),
        pytest.param(basic(READ), REPORT, 200, id="and what it links to"),
        pytest.param(basic(READ, user=""), PAGE, 200, id="without a user name"),
        pytest.param(basic(READ).replace("Basic", "bAsIc"), PAGE, 200, id="in any capitals"),
        pytest.param(basic(ADMIN), LIST, 200, id="an admin token"),
        pytest.param(basic(INGEST), PAGE, 403, id="a token of another scope"),
        pytest.param(basic("wrong"), PAGE, 401, id="an unknown token"),
        pytest.param(basic(READ + "x"), PAGE, 401, id="nearly"),
        pytest.param(basic(HASHED), PAGE, 401, id="the hash is not the token"),
        pytest.param(basic("", user=READ), PAGE, 401, id="the token as user name"),
        pytest.param("Basic " + READ, PAGE, 401, id="no base64"),
        pytest.param("Basic /w==", PAGE, 401, id="no UTF-8"),
        pytest.param("Basic", PAGE, 401, id="nothing"),
        pytest.param(basic(INGEST), SEND, 401, id="sends nothing: browsers repeat it unasked"),
        pytest.param(basic(ADMIN), LABEL, 401, id="labels nothing"),
    ],
)
def test_a_browser_sends_the_token_as_password_and_only_reads(
    guarded, authorization, asked, status
):
    body = b"{}" if asked[0] == "POST" else None
    answer = guarded.request(*asked, body, {"authorization": authorization})
    assert answer.status == status
    if status == 401:
        offered = answer.headers["www-authenticate"]
        assert offered.startswith("Basic ") == (asked[0] == "GET")
        assert 'Bearer realm="ragmon"' in offered


@pytest.mark.end_to_end
def test_a_real_browser_is_led_to_the_form(guarded):
    ran = subprocess.run(
        [
            program("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
            f"{guarded.url}/queries?words=refund",
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert 'name="token"' in ran.stdout
    assert 'name="next" value="/queries?words=refund"' in ran.stdout


def test_refusals_are_counted_by_source_and_reason(guarded):
    def counted(source: str, reason: str) -> float:
        return guarded.total("ragmon_rejected_total", source=source, reason=reason)

    before = [counted("http", "unauthorized"), counted("api", "forbidden")]
    guarded.post("/v1/queries", b"{}")
    guarded.with_token(INGEST).get("/v1/report")
    after = [counted("http", "unauthorized"), counted("api", "forbidden")]
    assert after == [was + 1 for was in before]


def test_nothing_is_kept_of_a_refused_batch(guarded):
    guarded.post("/v1/queries", {"query_id": "refused"})
    assert guarded.with_token(READ).get("/v1/queries/refused").status == 404


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz"])
def test_metrics_and_probes_are_open(guarded, path):
    assert guarded.get(path).status == 200


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz"])
def test_unless_they_are_protected(tmp_path, path):
    one, other = ("metrics", "probes") if path == "/metrics" else ("probes", "metrics")
    given = {"auth__tokens": tokens(tmp_path), f"auth__protect_{other}": True}
    with running(tmp_path / "open", **given) as site:
        assert site.get(path).status == 200
    given = {"auth__tokens": tokens(tmp_path), f"auth__protect_{one}": True}
    with running(tmp_path / "data", **given) as site:
        assert site.get(path).status == 401
        assert site.with_token(INGEST).get(path).status == 403
        assert site.with_token(READ).get(path).status == 200


def test_without_tokens_everything_passes(daemon):
    assert daemon.post("/v1/queries", b"{}").status == 200
    assert daemon.get("/v1/report").status == 200


def test_only_hashes_are_held(tmp_path):
    held = grants(settings(auth__tokens=tokens(tmp_path)))
    assert len(held) == 5
    for secret in (INGEST, READ, ADMIN, FILED):
        assert secret not in repr(held)
        assert secret not in repr([vars(each) for each in Authorizer(held, ManualClock())._holders])


@pytest.mark.parametrize(
    ("given", "open_to_all"),
    [
        pytest.param({"host": "127.0.0.1"}, False, id="loopback"),
        pytest.param({"host": "127.8.8.8"}, False, id="another loopback"),
        pytest.param({"host": "::1"}, False, id="IPv6 loopback"),
        pytest.param({"host": "localhost"}, False, id="localhost"),
        pytest.param({"host": "0.0.0.0"}, True, id="every address"),
        pytest.param({"host": "::"}, True, id="every IPv6 address"),
        pytest.param({"host": ""}, True, id="an empty host, which is every address"),
        pytest.param({"host": "10.1.2.3"}, True, id="a private address"),
        pytest.param({"host": "ragmon.example"}, True, id="a name"),
    ],
)
def test_without_tokens_only_loopback_is_served(given, open_to_all):
    if open_to_all:
        with pytest.raises(SettingsError, match="allow_anonymous"):
            check_exposure(settings(**given))
    else:
        check_exposure(settings(**given))
    check_exposure(settings(**given, auth__allow_anonymous=True))
    check_exposure(settings(**given, auth__tokens=[{"name": "a", "token": "b"}]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot read", id="missing"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n", "is empty", id="blank"),
        pytest.param(b"\xff\xfe", "cannot read", id="binary"),
    ],
)
def test_a_token_file_that_holds_no_token_stops_the_start(tmp_path, content, message):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    given = settings(auth__tokens=[{"name": "a", "token_file": str(path)}])
    with pytest.raises(SettingsError, match=message) as caught:
        grants(given)
    assert str(path) in str(caught.value)
