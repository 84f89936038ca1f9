"""Credentials for S3, in the order in which AWS's own programs look for them.

https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
"""

import configparser
import ipaddress
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

import requests

from ragmon.s3 import S3Error
from ragmon.terminal import one_line

_RENEW_BEFORE_S = 300.0
_TIMEOUT_S = (2.0, 10.0)  # to connect, and between two bytes; elsewhere nobody answers at all
_METADATA = "http://169.254.169.254"
_CONTAINERS = "http://169.254.170.2"
_LOCAL_AGENTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost"})
_MOST_DETAIL = 200


class Credentials(NamedTuple):
    """An access key, with a session token where it is a temporary one."""

    access_key: str
    secret_key: str
    session_token: str = ""


class _Temporary(NamedTuple):
    """Credentials that end at a unix time."""

    key: Credentials
    expires: float


class CredentialChain:
    """Credentials of a moment; temporary ones are asked for anew five minutes before they end."""

    def __init__(
        self, environment: Mapping[str, str], region: str, now: Callable[[], float]
    ) -> None:
        """Nothing is read yet.

        Args:
            environment: the variables AWS_* and HOME.
            region: of the token service that answers for a role of Kubernetes.
            now: the unix time.
        """
        self._environment = environment
        self._region = region
        self._now = now
        self._temporary: _Temporary | None = None

    def __call__(self) -> Credentials:
        """The first there are: variables, role of a pod, shared file, container, instance.

        Raises:
            S3Error: there are none, or the service of a role refused or did not answer.
        """
        environment = self._environment
        if environment.get("AWS_ACCESS_KEY_ID"):
            return _of_variables(environment)
        is_pod = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environment.get("AWS_ROLE_ARN")
        if not is_pod and (key := _of_shared_file(environment)):
            return key
        temporary = self._temporary
        if temporary is None or temporary.expires - self._now() < _RENEW_BEFORE_S:
            temporary = self._temporary = self._asked(bool(is_pod))
        return temporary.key

    def _asked(self, is_pod: bool) -> _Temporary:
        if is_pod:
            return _of_web_identity(self._environment, self._region)
        if url := _container_url(self._environment):
            return _of_container(self._environment, url)
        if self._environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise _none_found(self._environment, "and AWS_EC2_METADATA_DISABLED is true")
        return _of_instance(self._environment)


def _of_variables(environment: Mapping[str, str]) -> Credentials:
    return _whole(
        environment.get("AWS_ACCESS_KEY_ID", ""),
        environment.get("AWS_SECRET_ACCESS_KEY", ""),
        environment.get("AWS_SESSION_TOKEN", ""),
        "the environment",
    )


def _of_shared_file(environment: Mapping[str, str]) -> Credentials | None:
    """Credentials of a profile; None where there is no file and nobody asked for one."""
    path, profile = _shared_file(environment)
    wished = bool(environment.get("AWS_SHARED_CREDENTIALS_FILE") or environment.get("AWS_PROFILE"))
    parser = configparser.RawConfigParser()
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_file(file)
        section = parser[profile]
    except (OSError, configparser.Error, KeyError, UnicodeError) as error:
        if not wished and isinstance(error, FileNotFoundError):
            return None
        raise _none_found(environment, "") from error
    return _whole(
        section.get("aws_access_key_id", ""),
        section.get("aws_secret_access_key", ""),
        section.get("aws_session_token", ""),
        f"profile {profile} of {path}",
    )


def _shared_file(environment: Mapping[str, str]) -> tuple[Path, str]:
    usual = Path(environment.get("HOME", "/"), ".aws", "credentials")
    path = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or usual)
    return path, environment.get("AWS_PROFILE") or "default"


def _whole(access_key: str, secret_key: str, session_token: str, where: str) -> Credentials:
    if not access_key or not secret_key:
        raise S3Error(
            f"the credentials for S3 in {where} lack the access key or the secret key",
            hint="Give both",
        )
    return Credentials(access_key, secret_key, session_token)


def _none_found(environment: Mapping[str, str], more: str) -> S3Error:
    path, profile = _shared_file(environment)
    return S3Error(
        f"no credentials for S3: AWS_ACCESS_KEY_ID is not set, {path} has no readable"
        f" profile {profile}" + (f", {more}" if more else ""),
        hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, mount a credentials file, or give"
        " the pod, the container or the instance a role",
    )


def _of_web_identity(environment: Mapping[str, str], region: str) -> _Temporary:
    """Credentials for the token of a Kubernetes service account (IRSA)."""
    path = Path(environment["AWS_WEB_IDENTITY_TOKEN_FILE"])
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise S3Error(
            f"no credentials for S3: {path} cannot be read ({type(error).__name__})",
            hint="Is the token that AWS_WEB_IDENTITY_TOKEN_FILE names mounted?",
        ) from error
    service = f"https://sts.{region}.amazonaws.com"
    asked = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": environment["AWS_ROLE_ARN"],
        "RoleSessionName": environment.get("AWS_ROLE_SESSION_NAME") or "ragmon-backup",
        "WebIdentityToken": token,
    }
    url = environment.get("AWS_ENDPOINT_URL_STS") or service
    answer = _answer("POST", url, "the token service of AWS", data=asked)
    try:
        result = ElementTree.fromstring(answer.content).find(".//{*}Credentials")  # noqa: S314
    except ElementTree.ParseError:
        result = None
    texts = {} if result is None else {item.tag.rpartition("}")[2]: item.text for item in result}
    return _temporary(texts, "SessionToken", url)


def _container_url(environment: Mapping[str, str]) -> str:
    relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "")
    if relative:
        return _CONTAINERS + relative
    return environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")


def _of_container(environment: Mapping[str, str], url: str) -> _Temporary:
    """Credentials from the agent of EKS Pod Identity or ECS."""
    if not _is_safe_agent(url):
        raise S3Error(
            f"no credentials for S3: AWS_CONTAINER_CREDENTIALS_FULL_URI names {url}, which is"
            " neither https, loopback nor the agent of ECS or EKS",
            hint="The credentials of the role would cross the network in the clear",
        )
    token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if path := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise S3Error(
                f"no credentials for S3: {path} cannot be read ({type(error).__name__})",
                hint="Is the token that AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names mounted?",
            ) from error
    headers = {"Authorization": token} if token else {}
    return _temporary(
        _json(_answer("GET", url, "the container's agent", headers=headers)), "Token", url
    )


def _is_safe_agent(url: str) -> bool:
    """True for the addresses that AWS's own programs take."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host in _LOCAL_AGENTS:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _of_instance(environment: Mapping[str, str]) -> _Temporary:
    """Credentials of the instance's role, by the second version of its metadata service."""
    base = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "").rstrip("/") or _METADATA
    wished = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
    try:
        session = _answer("PUT", f"{base}/latest/api/token", "the metadata service", headers=wished)
    except S3Error as error:
        raise _none_found(environment, f"and {error}") from error
    headers = {"X-aws-ec2-metadata-token": session.text}
    roles = f"{base}/latest/meta-data/iam/security-credentials/"
    role = (
        _answer("GET", roles, "the metadata service", headers=headers).text.split("\n")[0].strip()
    )
    answer = _answer("GET", roles + role, "the metadata service", headers=headers)
    return _temporary(_json(answer), "Token", base)


def _answer(method: str, url: str, what: str, **request: Any) -> requests.Response:
    """The answer of a service of credentials.

    Raises:
        S3Error: it refused, or there is none.
    """
    try:
        with requests.Session() as session:
            session.trust_env = False  # neither a proxy nor .netrc has a part in this
            answer = session.request(
                method, url, timeout=_TIMEOUT_S, allow_redirects=False, **request
            )
    except requests.RequestException as error:
        raise S3Error(
            f"{what} at {_place(url)} does not answer ({type(error).__name__})",
            hint="Is this a pod, a container or an instance with a role?",
        ) from error
    if answer.status_code != 200:
        detail = one_line(answer.text)[:_MOST_DETAIL]
        raise S3Error(
            f"{what} at {_place(url)} refused with {answer.status_code}: {detail}",
            hint="Check the role, and whom it trusts",
        )
    return answer


def _json(answer: requests.Response) -> dict[str, Any]:
    try:
        content = answer.json()
    except requests.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}


def _temporary(content: Mapping[str, Any], token: str, url: str) -> _Temporary:
    access_key = content.get("AccessKeyId")
    secret_key = content.get("SecretAccessKey")
    try:
        expires = datetime.fromisoformat(str(content["Expiration"])).timestamp()
        if not access_key or not secret_key:
            raise KeyError(token)
        key = Credentials(str(access_key), str(secret_key), str(content[token]))
    except (KeyError, ValueError) as error:
        raise S3Error(
            f"the answer of {_place(url)} holds no credentials",
            hint="Is it the service that AWS documents for roles?",
        ) from error
    return _Temporary(key, expires)


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
