"""New traces of a running daemon, each printed once, for ``ragmon trace-doctor --watch``."""

from collections.abc import Callable

from ragmon.api_schema import TraceExplanation
from ragmon.cli.console import warn
from ragmon.cli.exit_codes import ExitCode
from ragmon.errors import RemoteError

_EVERY_S = 2.0
_MOST_REMEMBERED = 1_000  # traces


class TraceWatch:
    """Asks a daemon for its newest traces, again and again."""

    def __init__(
        self,
        newest: Callable[[], list[TraceExplanation]],
        sleep: Callable[[float], None],
        show: Callable[[TraceExplanation], None],
    ) -> None:
        """A watch.

        Args:
            newest: asks the daemon, the oldest trace first.
            sleep: waits for so many seconds.
            show: prints one trace.
        """
        self._newest = newest
        self._sleep = sleep
        self._show = show
        self._shown: dict[str, int] = {}  # spans, by trace id
        self._is_lost = False

    def run(self, first: int) -> int:
        """Print the newest so many traces, then each that comes, until interrupted.

        Raises:
            RemoteError: the daemon cannot be asked at the start, or refuses.
        """
        traces = self._newest()
        self._note(traces[: len(traces) - first])
        self._say(traces)
        warn("Waiting for traces; each shows some seconds after its last span. Ctrl-C ends.")
        while True:
            self._sleep(_EVERY_S)
            self._look()

    def _look(self) -> None:
        """Ask once; a daemon that is away for a while is waited for."""
        try:
            traces = self._newest()
        except RemoteError as error:
            if 0 < error.status < 500:
                raise
            if not self._is_lost:
                warn(f"{error}; trying on")
            self._is_lost = True
            return
        if self._is_lost:
            warn("the daemon answers again")
        self._is_lost = False
        self._say(traces)

    def _say(self, traces: list[TraceExplanation]) -> None:
        """Print those that are new, or have more spans than before."""
        new = [trace for trace in traces if self._shown.get(trace.trace_id) != len(trace.spans)]
        for trace in new:
            if trace.trace_id in self._shown:
                warn(f"more spans of {trace.trace_id} came:")
            self._show(trace)
        self._note(traces)

    def _note(self, traces: list[TraceExplanation]) -> None:
        """Remember what need not be printed again: as many as the daemon keeps."""
        self._shown |= {trace.trace_id: len(trace.spans) for trace in traces}
        for trace_id in list(self._shown)[:-_MOST_REMEMBERED]:
            del self._shown[trace_id]


def stop_at_interrupt(run: Callable[[], int]) -> int:
    """Run until Ctrl-C, which is how watching ends and no failure."""
    try:
        return run()
    except KeyboardInterrupt:
        return ExitCode.OK
