"""Tokens of a running daemon: replaced without a restart, expiring, limited, and listed."""

import json

import pytest

from ragmon import cli
from ragmon.clock import ManualClock, SystemClock
from ragmon.config import load
from ragmon.daemon.tokens import grants
from ragmon.errors import SettingsError
from tests.support.daemons import running

ADMIN = "admin-secret"
OPS = {"name": "ops", "token": ADMIN, "scopes": ["admin"]}
BATCH = {"query_id": "q"}


class SteppedClock(SystemClock):
    """The machine's clock, some time ahead."""

    ahead_s = 0.0

    def now(self):
        return super().now() + self.ahead_s


def status(site, token):
    return site.with_token(token).post("/v1/queries", BATCH).status


def test_a_token_is_replaced_without_a_restart(tmp_path):
    path = tmp_path / "token"
    path.write_text("old\n")
    tokens = [{"name": "app", "token_file": str(path)}, OPS]
    with running(tmp_path / "data", auth__tokens=tokens) as site:

        def reloaded(text):
            path.write_text(text)
            site.daemon._access.secrets.check()
            return [status(site, token) for token in ("old", "new")]

        assert reloaded("old\n") == [200, 401]
        assert reloaded("new\nold\n") == [200, 200]
        assert reloaded("  new \n\n") == [401, 200]
        assert reloaded("") == [401, 200]  # the former one stays in use
        usable = site.total("ragmon_secret_files_usable", files="tokens")
        assert usable == 0
        assert reloaded("new\n") == [401, 200]
        assert site.total("ragmon_secret_files_usable", files="tokens") == 1


def test_a_token_expires(tmp_path):
    clock = SteppedClock()
    expires = clock.now() + 3_600.0
    tokens = [{"name": "app", "token": "secret", "expires": expires}, OPS]
    with running(tmp_path / "data", clock, auth__tokens=tokens) as site:
        assert status(site, "secret") == 200
        shown = site.total("ragmon_token_expiry_timestamp_seconds", token="app")
        assert shown == pytest.approx(expires)
        clock.ahead_s = 3_700.0
        refused = site.with_token("secret").post("/v1/queries", BATCH)
        assert refused.status == 401
        assert "token 'app' expired at" in refused.json["detail"]
        count = site.total("ragmon_rejected_total", source="http", reason="token_expired")
        assert count == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("2027-06-30", 1_814_313_600.0, id="a day, from its beginning"),
        pytest.param("2027-06-30T12:00:00Z", 1_814_356_800.0, id="a time"),
        pytest.param("2027-06-30T14:00:00+02:00", 1_814_356_800.0, id="elsewhere"),
    ],
)
def test_expiry_is_read_as_yaml_and_people_write_it(tmp_path, text, seconds):
    path = tmp_path / "ragmon.yaml"
    for written in (text, f'"{text}"'):
        path.write_text(f"auth: {{tokens: [{{name: a, token: b, expires: {written}}}]}}")
        (token,) = load(path, {}, {}).settings.auth.tokens
        assert token.expires == seconds


@pytest.mark.parametrize(
    ("token", "message"),
    [
        pytest.param({"expires": "soon"}, "write for example 2027-06-30", id="no time"),
        pytest.param({"pipelines": ["a"], "scopes": ["admin"]}, "every pipeline", id="admin"),
        pytest.param({"rate": {"requests_per_second": 0}}, "greater than 0", id="no rate"),
        pytest.param({"rate": {"request_per_second": 1}}, "request_per_second", id="a typo"),
    ],
)
def test_settings_of_a_token_that_make_no_sense_are_refused(token, message):
    tokens = [{"name": "a", "token": "b", **token}]
    with pytest.raises(SettingsError, match=message):
        load(None, {"auth.tokens": tokens}, {})


def test_two_tokens_of_one_name_are_refused():
    tokens = [{"name": "a", "token": "b"}, {"name": "a", "token": "c"}]
    with pytest.raises(SettingsError, match="two have the same name"):
        load(None, {"auth.tokens": tokens}, {})


def test_rates_refuse_with_the_time_to_wait(tmp_path):
    limited = {"name": "app", "token": "secret", "rate": {"records_per_second": 0.5}}
    busy = {"name": "busy", "token": "often", "rate": {"requests_per_second": 0.1}}
    with running(tmp_path / "data", auth__tokens=[limited, busy, OPS]) as site:
        app = site.with_token("secret")
        assert app.post("/v1/queries", [{"query_id": f"q{n}"} for n in range(20)]).status == 200
        refused = app.post("/v1/queries", {"query_id": "one more"})
        assert refused.status == 429
        assert 20 <= int(refused.headers["retry-after"]) <= 31
        assert "0.5 records a second (records_per_second" in refused.json["detail"]
        assert site.total("ragmon_rejected_total", source="http", reason="rate_limited") == 1
        traces = app.request("POST", "/v1/traces", b"{}", {"content-type": "application/json"})
        assert traces.status == 429
        assert traces.headers["retry-after"]
        often = site.with_token("often")
        assert often.post("/v1/queries", {"query_id": "first"}).status == 200
        rating = {"query_id": "first", "rating": 1}
        assert 429 in [often.post("/v1/feedback", rating).status for _ in range(2)]
        assert status(site, ADMIN) == 200  # nobody else waits


def test_without_tokens_there_is_no_rate(daemon):
    for _ in range(30):
        assert daemon.post("/v1/queries", [{} for _ in range(100)]).status == 200


def test_tokens_are_listed_without_their_secrets(tmp_path, capsys, monkeypatch):
    tokens = [
        {"name": "app", "token": "secret", "pipelines": ["docs-*"], "expires": "2999-01-01"},
        {"name": "idle", "token": "other", "rate": {"requests_per_second": 20}},
        OPS,
    ]
    data = tmp_path / "data"
    with running(data, auth__tokens=tokens) as site:
        site.with_token("secret").post("/v1/queries", {"pipeline": "docs-de"})
        answer = site.with_token(ADMIN).get("/v1/tokens")
        assert "secret" not in answer.text.replace('"secrets"', "")
        app, idle, ops = answer.json["tokens"]
        assert app["pipelines"] == ["docs-*"]
        assert app["last_used"]
        assert ops["last_used"]
        assert idle["last_used"] is None
        assert site.with_token("secret").get("/v1/tokens").status == 403
        monkeypatch.setenv("RAGMON_API_TOKEN", ADMIN)
        monkeypatch.setenv("COLUMNS", "200")
        assert cli.main(["token", "list", "--url", site.url]) == 0
        printed = capsys.readouterr().out
        assert "docs-*" in printed
        assert "20 requests/s" in printed
        assert "2999-01-01 00:00 UTC" in printed
        assert cli.main(["token", "list", "--url", site.url, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["tokens"]) == 3
    assert (data / "token-use.json").stat().st_mode & 0o777 == 0o600
    with running(data, ManualClock(2e9), auth__tokens=tokens) as site:
        listed = {each.name: each.last_used for each in site.daemon._access.tokens.listed().tokens}
        assert listed["app"] == pytest.approx(app["last_used"])
        assert listed["idle"] is None


def test_the_command_prints_settings_that_ragmon_takes(capsys, tmp_path):
    asked = ["token", "shop", "--scope", "ingest", "--expires", "2999-06-30"]
    assert cli.main([*asked, "--pipeline", "docs-*"]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / "ragmon.yaml"
    path.write_text(printed.partition("ragmon.yaml:\n")[2])
    (token,) = load(path, {}, {}).settings.auth.tokens
    assert (token.name, token.pipelines) == ("shop", ("docs-*",))
    assert token.expires == 32_487_696_000.0


GENERATED = [
    {"name": "ops", "scopes": ["admin"], "generate": True},
    {"name": "app", "scopes": ["ingest"], "generate": True},
]


def shown(capsys, monkeypatch, data, *words):
    monkeypatch.setenv("RAGMON_DATA_DIR", str(data))
    code = cli.main(["token", *words])
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if "[info " not in line]  # the daemon's log
    return code, "\n".join(lines), printed.err


def test_tokens_that_ragmon_made_stay_over_a_restart(tmp_path, capsys, monkeypatch):
    data = tmp_path / "data"
    with running(data, auth__tokens=GENERATED) as site:
        _, token, _ = shown(capsys, monkeypatch, data, "show", "app")
        assert token.startswith("rgm_")
        assert status(site, token) == 200
        assert status(site, token[:-1]) == 401
        assert site.with_token(token).get("/v1/report").status == 403
    assert (data / "tokens").stat().st_mode & 0o777 == 0o700
    assert (data / "tokens/app").stat().st_mode & 0o777 == 0o600
    with running(data, auth__tokens=GENERATED) as site:
        assert status(site, token) == 200
        _, both, _ = shown(capsys, monkeypatch, data, "show", "--json")
        made = json.loads(both)
        assert made["app"] == token
        assert status(site, made["ops"]) == 200
        assert made["ops"] != token


def test_a_generated_token_is_rotated_while_its_senders_go_on(tmp_path, capsys, monkeypatch):
    data = tmp_path / "data"
    with running(data, auth__tokens=GENERATED) as site:
        _, old, _ = shown(capsys, monkeypatch, data, "show", "app")
        code, new, told = shown(capsys, monkeypatch, data, "rotate", "app")
        assert code == 0
        assert "ragmon token retire app" in told
        assert shown(capsys, monkeypatch, data, "show", "app")[1] == new
        site.daemon._access.secrets.check()
        assert [status(site, token) for token in (old, new)] == [200, 200]
        assert shown(capsys, monkeypatch, data, "retire", "app")[1] == "1 old token of app ended"
        site.daemon._access.secrets.check()
        assert [status(site, token) for token in (old, new)] == [401, 200]
        (data / "tokens/app").unlink()
        site.daemon._access.secrets.check()
        assert status(site, new) == 200  # the former one stays in use
        assert site.total("ragmon_secret_files_usable", files="tokens") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["show"], "has made no tokens", id="none yet"),
        pytest.param(["show", "app"], "generate: true", id="an unknown one"),
        pytest.param(["rotate"], "needs the name", id="rotate without a name"),
        pytest.param(["shop", "more"], "unexpected argument 'more'", id="a name too many"),
    ],
)
def test_what_the_command_cannot_do_it_says(tmp_path, capsys, monkeypatch, words, message):
    code, _, told = shown(capsys, monkeypatch, tmp_path / "data", *words)
    assert code == 2
    assert message in told


@pytest.mark.parametrize("action", ["show", "rotate", "retire"])
def test_a_name_leads_to_no_file_elsewhere(tmp_path, capsys, monkeypatch, action):
    outside = tmp_path / "outside"
    outside.write_text("one\ntwo\n")
    (tmp_path / "data" / "tokens").mkdir(parents=True)
    code, out, told = shown(capsys, monkeypatch, tmp_path / "data", action, "../../outside")
    assert code == 2
    assert "is no name of a token" in told
    assert "one" not in out
    assert outside.read_text() == "one\ntwo\n"


def test_a_check_of_the_settings_makes_no_token(tmp_path):
    given = load(None, {"data_dir": str(tmp_path / "data"), "auth.tokens": GENERATED}, {}).settings
    assert [grant.hashes for grant in grants(given)] == [(), ()]
    assert not (tmp_path / "data").exists()


def test_a_data_directory_that_takes_no_token_stops_the_start(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "tokens").write_text("in the way")
    with pytest.raises(SettingsError, match="tokens/ops"), running(data, auth__tokens=GENERATED):
        pass
