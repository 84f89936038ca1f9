"""Settings of a replica: one of several processes with the same store."""

from ragmon.config.sections import SettingsSection


class ReplicaSettings(SettingsSection):
    """This process among others."""

    name: str = ""
    """Name of this process, in the header Ragmon-Instance of answers to GET /v1/…; empty: the name
    of the host, in Kubernetes that of the pod."""
    standby: bool = False
    """Wait while another ragmon has the store, and take over when it ends or is killed; without it
    `ragmon serve` ends with an error. A standby answers 503 on /readyz and to everything that is
    sent, so that clients try again."""
