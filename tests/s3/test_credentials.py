"""Where credentials come from: variables, files, and the services that AWS has for roles."""

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ragmon.clock import ManualClock
from ragmon.s3 import S3Error
from ragmon.s3.credentials import CredentialChain, Credentials

NOON = 1_763_812_800.0
ROLE = "/latest/meta-data/iam/security-credentials/"
STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>session</SessionToken>
<SecretAccessKey>secret</SecretAccessKey><Expiration>{expires}</Expiration>
<AccessKeyId>ASIA</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


def document(number: int = 1, **more: str) -> str:
    expires = datetime.fromtimestamp(NOON + 3_600.0 * number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    key = {"AccessKeyId": f"ASIA{number}", "SecretAccessKey": "secret", "Token": "session"}
    return json.dumps({**key, "Expiration": expires, **more})


class Service(BaseHTTPRequestHandler):
    """Answers from a table by method and path; remembers what it was asked."""

    answers: dict[str, list[tuple[int, str]]]
    asked: list[tuple[str, dict[str, str], str]]

    def _answer(self) -> None:
        asked = f"{self.command} {self.path}"
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.asked.append((asked, {k.lower(): v for k, v in self.headers.items()}, body))
        answers = self.answers.get(asked, [(404, "no such thing")])
        status, text = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_PUT = do_POST = _answer

    def log_message(self, *_arguments: object) -> None:
        pass


@contextlib.contextmanager
def service(**answers: list[tuple[int, str]]) -> Iterator[tuple[str, list]]:
    table = {name.replace("__", " ", 1): rows for name, rows in answers.items()}
    handler = type("Handler", (Service,), {"answers": table, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}", handler.asked
        finally:
            http.shutdown()
            thread.join()


def instance(*documents: tuple[int, str]):
    return service(
        **{
            "PUT /latest/api/token": [(200, "metadata-token")],
            f"GET {ROLE}": [(200, "backup-role\n")],
            f"GET {ROLE}backup-role": list(documents),
        }
    )


@pytest.fixture
def chain(tmp_path):
    """A chain for some variables, in an empty home."""
    clock = ManualClock(NOON)

    def of(**variables: str) -> CredentialChain:
        return CredentialChain({"HOME": str(tmp_path), **variables}, "eu-west-1", clock.now)

    of.clock = clock
    return of


def test_the_variables_come_first(chain):
    key = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    role = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere", "AWS_ROLE_ARN": "arn"}
    assert chain(**key, **role)() == Credentials("a", "b", "c")


def test_the_shared_file_has_profiles(chain, tmp_path):
    path = tmp_path / ".aws" / "credentials"
    path.parent.mkdir()
    path.write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n"
        "[other]\naws_access_key_id=d\naws_secret_access_key=e\naws_session_token=f\n"
    )
    assert chain()() == Credentials("a", "b%c")
    variables = {"AWS_SHARED_CREDENTIALS_FILE": str(path), "AWS_PROFILE": "other"}
    assert chain(**variables)() == Credentials("d", "e", "f")
    with pytest.raises(S3Error, match="no readable profile none"):
        chain(AWS_PROFILE="none")()
    with pytest.raises(S3Error, match="lack the access key or the secret key"):
        chain(AWS_ACCESS_KEY_ID="a")()


def test_the_instance_is_asked_last_by_the_second_version(chain):
    with instance((200, document())) as (url, asked):
        credentials = chain(AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
        assert credentials() == Credentials("ASIA1", "secret", "session")
        assert credentials() == Credentials("ASIA1", "secret", "session")
    first, *others = asked
    assert len(asked) == 3, "held until they end"
    assert first[1]["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
    assert {each[1]["x-aws-ec2-metadata-token"] for each in others} == {"metadata-token"}


def test_temporary_ones_are_renewed_five_minutes_before_they_end(chain):
    with instance((200, document(1)), (200, document(2))) as (url, _):
        credentials = chain(AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
        assert credentials().access_key == "ASIA1"
        chain.clock.sleep(3_299.0)
        assert credentials().access_key == "ASIA1"
        chain.clock.sleep(2.0)
        assert credentials().access_key == "ASIA2"


def test_a_machine_without_any_is_told_what_was_tried(chain):
    with pytest.raises(S3Error, match="AWS_EC2_METADATA_DISABLED is true"):
        chain(AWS_EC2_METADATA_DISABLED="true")()
    with service() as (url, _):
        credentials = chain(AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
        with pytest.raises(S3Error, match=r"AWS_ACCESS_KEY_ID is not set.*refused with 404"):
            credentials()


def test_the_role_of_a_pod_by_its_service_account(chain, tmp_path):
    token = tmp_path / "token"
    token.write_text("service account token\n")
    answer = STS.format(expires="2025-11-22T13:00:00Z")
    with service(**{"POST /": [(200, answer)]}) as (url, asked):
        credentials = chain(
            AWS_WEB_IDENTITY_TOKEN_FILE=str(token),
            AWS_ROLE_ARN="arn:aws:iam::1:role/backup",
            AWS_ENDPOINT_URL_STS=url,
        )
        assert credentials() == Credentials("ASIA", "secret", "session")
        token.write_text("rotated")
        chain.clock.sleep(3_600.0)
        credentials()
    bodies = [body for _, _, body in asked]
    assert "WebIdentityToken=service+account+token&" in bodies[0] + "&"
    assert "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fbackup" in bodies[0]
    assert "WebIdentityToken=rotated" in bodies[1]


def test_a_role_that_does_not_trust_the_pod(chain, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret of the pod")
    with service(**{"POST /": [(403, "<Error>AccessDenied</Error>")]}) as (url, _):
        role = {"AWS_ROLE_ARN": "arn", "AWS_ENDPOINT_URL_STS": url}
        with pytest.raises(S3Error, match="refused with 403: <Error>AccessDenied") as error:
            chain(AWS_WEB_IDENTITY_TOKEN_FILE=str(token), **role)()
        assert "secret of the pod" not in str(error.value)
        with pytest.raises(S3Error, match="cannot be read"):
            chain(AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "none"), **role)()


def test_the_agent_of_a_container(chain, tmp_path):
    token = tmp_path / "token"
    token.write_text("pod identity")
    with service(**{"GET /v1/credentials": [(200, document())]}) as (url, asked):
        credentials = chain(
            AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{url}/v1/credentials",
            AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token),
        )
        assert credentials().session_token == "session"
    assert asked[0][1]["authorization"] == "pod identity"


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/x", "http://example.com/x", "http://127.0.0.1.example.com/", "x"]
)
def test_a_role_is_not_asked_for_in_the_clear(chain, url):
    with pytest.raises(S3Error, match="neither https, loopback nor the agent"):
        chain(AWS_CONTAINER_CREDENTIALS_FULL_URI=url)()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("", id="nothing"),
        pytest.param("[]", id="a list"),
        pytest.param(document(Expiration="soon"), id="an end that is no time"),
        pytest.param(document(AccessKeyId=""), id="an empty key"),
        pytest.param('{"Code": "Failed"}', id="a failure"),
    ],
)
def test_answers_without_credentials(chain, answer):
    with instance((200, answer)) as (url, _):
        credentials = chain(AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
        with pytest.raises(S3Error, match="holds no credentials"):
            credentials()
