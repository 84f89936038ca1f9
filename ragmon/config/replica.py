"""Settings of a replica: one of several processes with the same store."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ragmon.config.sections import SettingsSection


class ReplicaSettings(SettingsSection):
    """This process among others."""

    name: str = ""
    """Name of this process, in the header Ragmon-Instance of answers to GET /v1/…; empty: the name
    of the host, in Kubernetes that of the pod."""
    role: Literal["all", "worker", "evaluator"] = "all"
    """Part of this process: worker reads some partitions of the Kafka source, together with other
    workers of its group, and stores their queries; evaluator counts what all workers stored,
    judges, alerts, and takes in everything else; all does both, as the only process. Workers and
    their evaluator share store.kind postgresql; see deploy/docs/guides/cluster.md."""
    standby: bool = False
    """Wait while another ragmon has the store, and take over when it ends or is killed; without it
    `ragmon serve` ends with an error. A standby sends requests on to the active ragmon, and is
    ready while that one is; while nobody is active it answers 503, so that clients try again."""
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]*$")] = ""
    """Name or IP address at which other replicas reach this one, on its own ports; empty: host,
    and where that is 0.0.0.0 or ::, the name of this host."""
    ca_file: Path | None = None
    """PEM file of authorities that a standby checks the certificate of the active ragmon with,
    which is to be for replica.address; none: those of the system."""
