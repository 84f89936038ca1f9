"""An S3 bucket of backups: AWS, MinIO, or any other that speaks S3 with signature version 4."""

import contextlib
import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from xml.etree import ElementTree

import requests

from ragmon.backups import BackupError, StoredFile
from ragmon.backups.aws_credentials import CredentialChain
from ragmon.backups.sigv4 import S3Auth, encoded
from ragmon.clock import Clock
from ragmon.sources import ListedObject
from ragmon.terminal import one_line

_PART_BYTES = 16 << 20  # above it an object is sent in parts; one of them is in memory
_MOST_PARTS = 9_000  # S3 takes 10,000
_CHUNK_BYTES = 1 << 20
_MOST_DETAIL = 200
_TRIES = 5
_LONGEST_PAUSE_S = 30.0
_TIMEOUT_S = (10.0, 120.0)  # to connect, and between two bytes


class S3Place:
    """The objects below one prefix of a bucket."""

    def __init__(self, url: str, *, endpoint: str, region: str, clock: Clock) -> None:
        """Nothing is asked yet.

        Args:
            url: ``s3://bucket/prefix``.
            endpoint: of another server than AWS; empty for AWS.
            region: of the bucket.
            clock: for signatures, and to wait between tries.
        """
        parts = urlsplit(url)
        self.url = url
        self._prefix = parts.path.strip("/") + "/" if parts.path.strip("/") else ""
        self._base = _base(parts.netloc, endpoint.rstrip("/"), region)
        self._clock = clock
        self._session = requests.Session()
        chain = CredentialChain(os.environ, region, clock.now)
        self._session.auth = S3Auth(region, clock.now, chain)

    def files(self) -> Iterator[StoredFile]:
        """Every object of the prefix, in no order."""
        asked = {"list-type": "2", "prefix": self._prefix, "delimiter": "/"}
        for item in self._listed(asked):
            name = item.findtext("{*}Key", "").removeprefix(self._prefix)
            yield StoredFile(name, int(item.findtext("{*}Size", "0")))

    def objects(self) -> Iterator[ListedObject]:
        """Every object of the prefix, also in folders, with the time of its last change."""
        for item in self._listed({"list-type": "2", "prefix": self._prefix}):
            name = item.findtext("{*}Key", "").removeprefix(self._prefix)
            size, modified = item.findtext("{*}Size", "0"), item.findtext("{*}LastModified", "")
            yield ListedObject(name, int(size), modified)

    def put(self, source: Path, name: str) -> None:
        """Store a file as an object; S3 shows it when all of it arrived."""
        key, size = self._prefix + name, source.stat().st_size
        with source.open("rb") as file:
            if size <= _PART_BYTES:
                self._ask("PUT", key, body=file.read())
            else:
                self._put_parts(file, key, max(_PART_BYTES, -(-size // _MOST_PARTS)))

    def get(self, name: str, target: Path) -> None:
        """Copy an object into a new file."""
        with target.open("wb") as out:
            self.get_into(name, out)

    def get_into(self, name: str, file: IO[bytes]) -> None:
        """Write an object into an open file; a connection that breaks is asked for the rest."""
        for left in reversed(range(_TRIES)):
            headers = {"Range": f"bytes={file.tell()}-"} if file.tell() else {}
            try:
                with self._ask("GET", self._prefix + name, headers=headers, stream=True) as got:
                    if got.status_code != 206:  # all of it
                        file.seek(0)
                        file.truncate()
                    for chunk in got.iter_content(_CHUNK_BYTES):
                        file.write(chunk)
                return
            except requests.RequestException as error:
                if not left:
                    raise self._unreachable(error) from error
                self._pause(_TRIES - left, "")

    def _listed(self, asked: dict[str, str]) -> Iterator[ElementTree.Element]:
        """The entries of a list, page by page."""
        while True:
            answer = self._xml(self._ask("GET", "", asked))
            yield from answer.iterfind("{*}Contents")
            token = answer.findtext("{*}NextContinuationToken")
            if answer.findtext("{*}IsTruncated") != "true" or not token:
                return
            asked["continuation-token"] = token

    def delete(self, name: str) -> None:
        """Delete an object; nothing happens where there is none."""
        self._ask("DELETE", self._prefix + name)

    def _put_parts(self, file: IO[bytes], key: str, part_bytes: int) -> None:
        started = self._xml(self._ask("POST", key, {"uploads": ""}))
        upload = started.findtext("{*}UploadId", "")
        try:
            done = ElementTree.Element("CompleteMultipartUpload")
            number = 0
            while part := file.read(part_bytes):
                number += 1
                asked = {"partNumber": str(number), "uploadId": upload}
                tag = self._ask("PUT", key, asked, body=part).headers.get("ETag", "")
                item = ElementTree.SubElement(done, "Part")
                ElementTree.SubElement(item, "PartNumber").text = str(number)
                ElementTree.SubElement(item, "ETag").text = tag
            asked = {"uploadId": upload}
            answer = self._xml(self._ask("POST", key, asked, body=ElementTree.tostring(done)))
            if answer.tag.endswith("Error"):  # with status 200
                raise BackupError(f"{self.url} refused {key}: {_detail(answer)}")
        except BaseException:
            with contextlib.suppress(BackupError):  # parts that nobody completes cost money
                self._ask("DELETE", key, {"uploadId": upload})
            raise

    def _ask(
        self,
        method: str,
        key: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> requests.Response:
        """One request, repeated where that may help.

        Raises:
            BackupError: the server refused it, or did not answer.
        """
        asked = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in
                         sorted((query or {}).items()))  # fmt: skip
        url = f"{self._base}/{encoded(key, keep='/')}" + (f"?{asked}" if asked else "")
        sent = dict(headers or {})
        if body:
            md5 = hashlib.md5(body, usedforsecurity=False).digest()
            sent["Content-MD5"] = b64encode(md5).decode()
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._session.request(
                    method, url, data=body, headers=sent, stream=stream,
                    timeout=_TIMEOUT_S, allow_redirects=False,
                )  # fmt: skip
            except requests.RequestException as error:
                if attempt == _TRIES:
                    raise self._unreachable(error) from error
                self._pause(attempt, "")
                continue
            if answer.status_code < 300:
                return answer
            if attempt == _TRIES or not (answer.status_code >= 500 or answer.status_code == 429):
                raise self._refusal(method, key, answer)
            self._pause(attempt, answer.headers.get("Retry-After", ""))
            answer.close()
        raise AssertionError("the last try returns or raises")

    def _pause(self, attempt: int, asked: str) -> None:
        seconds = float(asked) if asked.isdecimal() else 2.0 ** (attempt - 1)
        self._clock.sleep(min(seconds, _LONGEST_PAUSE_S))

    def _xml(self, answer: requests.Response) -> ElementTree.Element:
        try:
            return ElementTree.fromstring(answer.content)  # noqa: S314 - of the chosen server
        except ElementTree.ParseError as error:
            raise BackupError(
                f"{self.url}: the answer is no XML", hint="Check the endpoint: is it an S3 server?"
            ) from error

    def _refusal(self, method: str, key: str, answer: requests.Response) -> BackupError:
        try:
            detail = _detail(ElementTree.fromstring(answer.content))  # noqa: S314 - see above
        except ElementTree.ParseError:
            detail = answer.reason or ""
        return BackupError(
            f"{self.url} refused {method} {key or 'of the list'} with {answer.status_code}:"
            f" {one_line(detail)[:_MOST_DETAIL]}",
            hint="Check bucket, region, endpoint, and the rights of the key: it needs GetObject,"
            " PutObject, DeleteObject, AbortMultipartUpload and ListBucket",
        )

    def _unreachable(self, error: requests.RequestException) -> BackupError:
        return BackupError(
            f"{self.url} does not answer ({type(error).__name__}) at {self._base}",
            hint="Check the endpoint, the region and the network",
        )


def s3_place(url: str, *, endpoint: str, region: str, clock: Clock) -> S3Place:
    """A place by settings, completed from the variables ``AWS_*``.

    Args:
        url: ``s3://bucket/prefix``.
        endpoint: of another server than AWS; empty: as the environment says.
        region: of the bucket; empty: as the environment says.
        clock: for signatures, and to wait between tries.
    """
    return S3Place(
        url,
        endpoint=_first(endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        region=_first(region, "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        clock=clock,
    )


def _first(configured: str, *variables: str) -> str:
    values = (configured, *(os.environ.get(name, "") for name in variables))
    return next((value for value in values if value), "")


def _base(bucket: str, endpoint: str, region: str) -> str:
    if endpoint:
        return f"{endpoint}/{bucket}"
    if "." in bucket:  # no certificate covers it as the name of a host
        return f"https://s3.{region}.amazonaws.com/{bucket}"
    return f"https://{bucket}.s3.{region}.amazonaws.com"


def _detail(error: ElementTree.Element) -> str:
    return f"{error.findtext('{*}Code', '')} {error.findtext('{*}Message', '')}".strip()
