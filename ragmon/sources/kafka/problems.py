"""Errors of librdkafka in words that name the setting to mend."""

from typing import Any

from ragmon.errors import RagmonError, RemoteError
from ragmon.sources.kafka.options import Options

AGAIN = "it is tried again"

_MOST_REASON = 300
_REMEDIES = {
    "_AUTHENTICATION": "security.username and security.password_file",
    "SASL_AUTHENTICATION_FAILED": "security.username and security.password_file",
    "UNSUPPORTED_SASL_MECHANISM": "security.mechanism",
    "ILLEGAL_SASL_STATE": "security.protocol",
    "_SSL": "security.ca_file, and that the brokers' certificates name the hosts in brokers",
    "_RESOLVE": "the hosts in brokers",
    "_TRANSPORT": "brokers and security.protocol",
    "_ALL_BROKERS_DOWN": "brokers and security.protocol",
    "_TIMED_OUT": "brokers and security.protocol",
    "_MSG_TIMED_OUT": "brokers, and that each partition of the topic has a leader",
    "_UNKNOWN_TOPIC": "topic, or have it made by create: {partitions: 16, replication: 3}",
    "UNKNOWN_TOPIC_OR_PART": "topic, or have it made by create: {partitions: 16, replication: 3}",
    "TOPIC_AUTHORIZATION_FAILED": "that security.username may DESCRIBE and READ the topic,"
    " and WRITE it with produce",
    "CLUSTER_AUTHORIZATION_FAILED": "that security.username may DESCRIBE the cluster",
    "GROUP_AUTHORIZATION_FAILED": "that security.username may READ the group",
    "INVALID_REPLICATION_FACTOR": "create.replication: there are fewer brokers",
    "_INVALID_ARG": "options",
}
_SPECIFIC = ("_AUTHENTICATION", "_SSL", "_RESOLVE")
"""Errors that say more than that no broker answers."""


def short(error: Any) -> str:
    """The reason that librdkafka gives, of bounded length."""
    return str(error.str()[:_MOST_REASON])


class ClientProblem:
    """The last error that concerned all brokers together, which may be the cause of others."""

    def __init__(self, options: Options) -> None:
        self.last: Any = None
        self._options = options

    def note(self, error: Any) -> None:
        """Called by librdkafka with what concerns no single partition."""
        before = None if self.last is None else self.last.name()
        if before not in _SPECIFIC or error.name() in _SPECIFIC:
            self.last = error

    def explained(self, error: Any) -> RagmonError:
        """An error as people need it: the cause where there is one, and the setting."""
        if self.last is not None and self.last.name() in _SPECIFIC:
            error = self.last
        remedy = _REMEDIES.get(error.name(), "the brokers' log")
        where = ", ".join(self._options.brokers)
        return RemoteError(
            f"topic {self._options.topic} at {where}: {short(error)}",
            hint=f"Check {remedy}; {AGAIN}",
        )
