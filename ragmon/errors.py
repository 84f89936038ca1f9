"""Errors that ragmon raises on purpose.

RagmonError
├── SettingsError      the configuration cannot be used
├── RecordError        one line of input cannot be used
├── StoreError         the store refused; ``retryable`` says whether waiting helps
│   ├── StoreBusyError      another process owns it
│   ├── StoreFullError      no space left
│   ├── StoreUnreachableError   its server does not answer
│   │   └── StoreInDoubtError   nor said what became of a commit
│   ├── StoreBodiesError    the object store of its bodies does not give one
│   ├── StoreFencedError    another process has taken over
│   └── StoreCorruptError   the file is damaged
├── OverloadedError    the bounded queue is full
├── MemoryLimitError   limits.memory does not allow it, now or ever
├── ReadTimeoutError   a read took longer than allowed
└── RemoteError        another ragmon, or a sink, did not answer as it should
    └── SinkError           an alert was not delivered; ``retryable`` says whether waiting helps
"""


def extra_hint(extra: str) -> str:
    """Remedy where an optional dependency is missing; no index is named, since none has ragmon."""
    return f"Install ragmon with its extra: pip install '.[{extra}]' in a copy of its repository"


class RagmonError(Exception):
    """Anything ragmon raises on purpose; ``hint`` says what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}. {self.hint}" if self.hint else message


class SettingsError(RagmonError):
    """The configuration cannot be used."""


class RecordError(RagmonError):
    """One line of input cannot be used."""

    def __init__(self, reason: str, field: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.field = field


class StoreError(RagmonError):
    """The store refused a read or a write."""

    retryable = True
    reason = "store_error"


class LogWriteError(StoreError):
    """The topic did not take what was to be written to it."""

    reason = "log_error"


class StoreBusyError(StoreError):
    """Another process owns the store."""

    reason = "store_busy"

    def __init__(self, message: str, *, hint: str = "", addresses: str = "") -> None:
        super().__init__(message, hint=hint)
        self.addresses = addresses  # of its owner, as it announced them


class StoreFullError(StoreError):
    """There is no space left for another block."""

    reason = "store_full"


class StoreUnreachableError(StoreError):
    """The server of the store does not answer."""

    reason = "store_unreachable"


class StoreInDoubtError(StoreUnreachableError):
    """A commit was sent, and the server did not say what became of it; ``Shard.settle`` asks."""


class StoreBodiesError(StoreError):
    """The object store that has the bodies of blocks refused, or did not answer; others go on."""

    reason = "bodies_unavailable"


class StoreFencedError(StoreError):
    """Another process has taken over; this one must not write any more."""

    retryable = False
    reason = "store_fenced"


class StoreCorruptError(StoreError):
    """The store file is damaged."""

    retryable = False
    reason = "store_corrupt"


class OverloadedError(RagmonError):
    """The bounded queue is full: nothing of the batch was kept."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message, hint=f"Retry after {retry_after_s} s")
        self.retry_after_s = retry_after_s


class MemoryLimitError(RagmonError):
    """``limits.memory`` does not allow a request or a read."""

    def __init__(self, message: str, *, hint: str, retry_after_s: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s  # None: it could never fit

    @property
    def retryable(self) -> bool:
        """True where waiting helps: others hold the memory."""
        return self.retry_after_s is not None


class ReadTimeoutError(RagmonError):
    """A read took longer than allowed, and was given up."""


class RemoteError(RagmonError):
    """Another server did not answer as it should."""

    def __init__(self, message: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status  # of the answer; 0: there was none


class SinkError(RemoteError):
    """An alert was not delivered."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        retry_after_s: float = 0.0,
        status: int = 0,
        hint: str = "",
    ) -> None:
        super().__init__(message, status=status, hint=hint)
        self.retryable = retryable
        self.retry_after_s = retry_after_s  # what the receiver asked for; 0: nothing
