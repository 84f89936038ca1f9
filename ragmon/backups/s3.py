"""An S3 bucket of backups: AWS, MinIO, or any other that speaks S3 with signature version 4."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit
from xml.etree import ElementTree

import requests

from ragmon.backups import BackupError, StoredFile
from ragmon.clock import Clock
from ragmon.s3 import S3Error
from ragmon.s3.client import S3Bucket, S3Client, S3Limits, detail, endpoint_of, region_of
from ragmon.sources import ListedObject

_PART_BYTES = 16 << 20  # above it an object is sent in parts; one of them is in memory
_MOST_PARTS = 9_000  # S3 takes 10,000
_CHUNK_BYTES = 1 << 20
_LIMITS = S3Limits()


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
        bucket = S3Bucket(name=parts.netloc, endpoint=endpoint, region=region)
        self._client = S3Client(bucket, clock, _LIMITS, place=url)

    def files(self) -> Iterator[StoredFile]:
        """Every object of the prefix, in no order."""
        for item in self._listed({"prefix": self._prefix, "delimiter": "/"}):
            name = item.findtext("{*}Key", "").removeprefix(self._prefix)
            yield StoredFile(name, int(item.findtext("{*}Size", "0")))

    def objects(self) -> Iterator[ListedObject]:
        """Every object of the prefix, also in folders, with the time of its last change."""
        for item in self._listed({"prefix": self._prefix}):
            name = item.findtext("{*}Key", "").removeprefix(self._prefix)
            size, modified = item.findtext("{*}Size", "0"), item.findtext("{*}LastModified", "")
            yield ListedObject(name, int(size), modified)

    def put(self, source: Path, name: str) -> None:
        """Store a file as an object; S3 shows it when all of it arrived."""
        key, size = self._prefix + name, source.stat().st_size
        with source.open("rb") as file, _backed_up():
            if size <= _PART_BYTES:
                self._client.ask("PUT", key, body=file.read())
            else:
                self._put_parts(file, key, max(_PART_BYTES, -(-size // _MOST_PARTS)))

    def get(self, name: str, target: Path) -> None:
        """Copy an object into a new file."""
        with target.open("wb") as out:
            self.get_into(name, out)

    def get_into(self, name: str, file: IO[bytes]) -> None:
        """Write an object into an open file; a connection that breaks is asked for the rest."""
        with _backed_up():
            for attempt in range(1, _LIMITS.tries + 1):
                headers = {"Range": f"bytes={file.tell()}-"} if file.tell() else {}
                key = self._prefix + name
                try:
                    with self._client.ask("GET", key, headers=headers, stream=True) as got:
                        if got.status_code != 206:  # all of it
                            file.seek(0)
                            file.truncate()
                        for chunk in got.iter_content(_CHUNK_BYTES):
                            file.write(chunk)
                    return
                except requests.RequestException as error:
                    if attempt == _LIMITS.tries:
                        raise self._client.unreachable(error) from error
                    self._client.pause(attempt)

    def delete(self, name: str) -> None:
        """Delete an object; nothing happens where there is none."""
        with _backed_up():
            self._client.ask("DELETE", self._prefix + name)

    def _listed(self, asked: dict[str, str]) -> Iterator[ElementTree.Element]:
        with _backed_up():
            yield from self._client.listed(asked)

    def _put_parts(self, file: IO[bytes], key: str, part_bytes: int) -> None:
        ask = self._client.ask
        started = self._client.xml(ask("POST", key, {"uploads": ""}))
        upload = started.findtext("{*}UploadId", "")
        try:
            done = ElementTree.Element("CompleteMultipartUpload")
            number = 0
            while part := file.read(part_bytes):
                number += 1
                asked = {"partNumber": str(number), "uploadId": upload}
                tag = ask("PUT", key, asked, body=part).headers.get("ETag", "")
                item = ElementTree.SubElement(done, "Part")
                ElementTree.SubElement(item, "PartNumber").text = str(number)
                ElementTree.SubElement(item, "ETag").text = tag
            asked = {"uploadId": upload}
            answer = self._client.xml(ask("POST", key, asked, body=ElementTree.tostring(done)))
            if answer.tag.endswith("Error"):  # with status 200
                raise S3Error(f"{self.url} refused {key}: {detail(answer)}")
        except BaseException:
            with contextlib.suppress(S3Error):  # parts that nobody completes cost money
                ask("DELETE", key, {"uploadId": upload})
            raise


@contextlib.contextmanager
def _backed_up() -> Iterator[None]:
    """Errors of the object store as those of backups.

    Raises:
        BackupError: it refused, or did not answer.
    """
    try:
        yield
    except S3Error as error:
        raise BackupError(error.args[0], hint=error.hint) from error


def s3_place(url: str, *, endpoint: str, region: str, clock: Clock) -> S3Place:
    """A place by settings, completed from the variables ``AWS_*``.

    Args:
        url: ``s3://bucket/prefix``.
        endpoint: of another server than AWS; empty: as the environment says.
        region: of the bucket; empty: as the environment says.
        clock: for signatures, and to wait between tries.
    """
    return S3Place(url, endpoint=endpoint_of(endpoint), region=region_of(region), clock=clock)
