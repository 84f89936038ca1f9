"""Bodies of blocks in an object store: settings. See ``mover`` for how they get there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.clock import Clock, SystemClock
from ragmon.errors import SettingsError
from ragmon.http_client import check_secret, secret, timed_session

if TYPE_CHECKING:
    from ragmon.stores.postgresql.bodies.objects import ObjectBodies


class DatabaseBodies(BaseModel):
    """``bodies: {kind: postgresql}``: they stay with their blocks."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    kind: Literal["postgresql"] = "postgresql"
    """They stay in the database."""


class S3Bodies(BaseModel):
    """``bodies: {kind: s3, bucket: rag}``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    kind: Literal["s3"]
    """They are joined to objects, and moved into a bucket."""
    bucket: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    """Bucket of the objects; it has to be there."""
    prefix: Annotated[str, Field(pattern="^[A-Za-z0-9/_.=-]*$", max_length=200)] = "ragmon"
    """Beginning of their names, before the name of the store."""
    endpoint: Annotated[str, Field(pattern="^(https?://[^/?#]+/?)?$")] = ""
    """URL of another server than AWS, for example http://minio:9000; empty: AWS_ENDPOINT_URL_S3 or
    AWS_ENDPOINT_URL, else AWS."""
    region: str = ""
    """Region of the bucket; empty: AWS_REGION or AWS_DEFAULT_REGION, else us-east-1."""
    path_style: bool = True
    """The bucket in the path of the addresses at an endpoint; false: in the name of the host."""
    ca_file: Path | None = None
    """File with the authority that signed the certificate of the endpoint; none: those of the
    system."""
    access_key: SecretStr | None = None
    """Access key; none: as `ragmon backup` finds it, from AWS_ACCESS_KEY_ID, the shared credentials
    file, or the role of the pod, the container or the machine."""
    access_key_file: Path | None = None
    """File that holds the access key; it is read again for each request."""
    access_key_env: str | None = None
    """Environment variable that holds the access key."""
    secret_key: SecretStr | None = None
    """Secret key of the access key. A secret: prefer secret_key_file or secret_key_env."""
    secret_key_file: Path | None = None
    """File that holds the secret key; it is read again for each request."""
    secret_key_env: str | None = None
    """Environment variable that holds the secret key."""
    encryption: Literal["", "AES256", "aws:kms"] = ""
    """Encryption that the server is asked for with each object; empty: as the bucket says."""
    kms_key: str = ""
    """Key of aws:kms; empty: the one that the bucket names."""
    hot_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 3_600.0
    """Seconds for which the bodies of queries stay in the database. Feedback and verdicts that come
    within it ask nothing of the object store. Objects of little traffic wait twice as long."""
    object_bytes: Annotated[int, Field(ge=4_096, le=256 << 20)] = 8 << 20
    """Bytes of bodies that are joined to one object."""
    cache_bytes: Annotated[int, Field(ge=0, le=64 << 30)] = 64 << 20
    """Bytes of bodies that were read, kept in memory for the next reader."""
    read_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Seconds after which a read is given up; then others fail at once for as long."""
    max_pending_bytes: Annotated[int, Field(ge=1 << 20)] | None = None
    """Bytes of bodies that may wait in the database while the object store is away; beyond it new
    queries are refused with 503 until some could be moved. None: as much as the database has."""
    read_only: bool = False
    """Read what was moved, and neither move nor delete: for a copy of a database whose objects
    belong to the original."""

    @model_validator(mode="after")
    def _can_be(self) -> "S3Bodies":
        access = check_secret(self, "access_key", required=False)
        if access != check_secret(self, "secret_key", required=False):
            raise ValueError("give access_key and secret_key, or neither of them")
        if self.kms_key and self.encryption != "aws:kms":
            raise ValueError("kms_key is for encryption: aws:kms")
        return self


Bodies = Annotated[DatabaseBodies | S3Bodies, Field(discriminator="kind")]


def open_bodies(options: S3Bodies, clock: Clock | None = None) -> "ObjectBodies":
    """The bucket of the settings; nothing is asked of it yet.

    Raises:
        SettingsError: a secret or the file of the authority cannot be read.
    """
    from ragmon.s3.client import (  # noqa: PLC0415 - only where it is configured
        S3Bucket,
        S3Client,
        S3Limits,
        endpoint_of,
        region_of,
    )
    from ragmon.s3.credentials import Credentials  # noqa: PLC0415 - likewise
    from ragmon.stores.postgresql.bodies.objects import ObjectBodies  # noqa: PLC0415 - likewise

    clock = clock or SystemClock()
    if options.ca_file is not None and not options.ca_file.is_file():
        raise SettingsError(f"store.bodies.ca_file: {options.ca_file} is not a file")

    def keys() -> Credentials:
        return Credentials(secret(options, "access_key"), secret(options, "secret_key"))

    has_keys = check_secret(options, "access_key", required=False)
    if has_keys:
        keys()  # what cannot be read stops the start
    bucket = S3Bucket(
        name=options.bucket,
        endpoint=endpoint_of(options.endpoint),
        region=region_of(options.region),
        path_style=options.path_style,
        ca_file=options.ca_file,
        credentials=keys if has_keys else None,
    )
    prefix = options.prefix.strip("/")
    client = S3Client(
        bucket,
        clock,
        S3Limits(tries=2, timeout_s=(5.0, 60.0)),
        place=f"s3://{options.bucket}/{prefix}",
        session=timed_session(),
    )
    return ObjectBodies(client, prefix, options, clock)
