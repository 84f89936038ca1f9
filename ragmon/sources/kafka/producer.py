"""Messages to a topic by librdkafka: idempotent, and acknowledged by all replicas in sync.

It needs the extra ``cluster``.
"""

from collections.abc import Callable
from typing import Any, Protocol

from ragmon.errors import RagmonError, RemoteError
from ragmon.sources.kafka.client import refused, require_client, silent_logger
from ragmon.sources.kafka.options import Options, producer_settings
from ragmon.sources.kafka.problems import ClientProblem, short

_ASK_S = 1.0
_TOO_LARGE = "MSG_SIZE_TOO_LARGE"

Done = Callable[[RagmonError | None], None]
"""Called with the reason why a message is not in the topic; None: it is."""


class MessageTooLargeError(RemoteError):
    """The topic takes no message of this size."""


class TopicProducer(Protocol):
    """A topic that messages are written to; for one thread."""

    @property
    def is_broken(self) -> bool:
        """True once nothing can be sent any more; another producer may."""
        ...

    def send(self, key: bytes, value: bytes, done: Done) -> bool:
        """Begin to write a message; False: too many are under way, none was begun."""
        ...

    def poll(self, timeout_s: float) -> None:
        """Tell of messages whose outcome is known, or wait for one."""
        ...

    def check(self) -> None:
        """Ask the brokers for the topic.

        Raises:
            RagmonError: they do not answer, or have none.
        """
        ...


class KafkaProducer:
    """See ``TopicProducer`` for what the methods promise."""

    def __init__(self, options: Options) -> None:
        """Connect, in the background.

        Raises:
            SettingsError: librdkafka knows no such option, or a file is missing.
        """
        self.is_broken = False
        self._kafka = require_client()
        self._topic = options.topic
        self._problem = ClientProblem(options)
        settings = {"error_cb": self._note, "logger": silent_logger()}
        try:
            self._producer = self._kafka.Producer(producer_settings(options) | settings)
        except self._kafka.KafkaException as error:
            raise refused(error) from None

    def send(self, key: bytes, value: bytes, done: Done) -> bool:
        """Begin to write a message; False: too many are under way, none was begun."""

        def delivered(error: Any, _: object) -> None:
            done(None if error is None else self._explained(error))

        try:
            self._producer.produce(self._topic, value, key, on_delivery=delivered)
        except BufferError:
            return False
        except self._kafka.KafkaException as error:
            done(self._explained(error.args[0]))
        return True

    def poll(self, timeout_s: float) -> None:
        """Tell of messages whose outcome is known, or wait for one."""
        self._producer.poll(timeout_s)

    def check(self) -> None:
        """Ask the brokers for the topic."""
        try:
            described = self._producer.list_topics(self._topic, timeout=_ASK_S)
        except self._kafka.KafkaException as error:
            raise self._explained(error.args[0]) from None
        if (missing := described.topics[self._topic].error) is not None:
            raise self._explained(missing)
        self._problem.last = None

    def _note(self, error: Any) -> None:
        self.is_broken |= error.fatal()
        self._problem.note(error)

    def _explained(self, error: Any) -> RagmonError:
        self.is_broken |= error.fatal()
        if error.name() == _TOO_LARGE:
            return MessageTooLargeError(short(error))
        return self._problem.explained(error)
