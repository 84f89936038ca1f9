"""The preloaded library: built once, steered through a page of shared memory."""

import functools
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("preload.c")
_FIELDS = (
    "sync_errno", "write_errno", "read_errno", "short_writes", "sync_delay_us", "clock_us",
    "every", "calls", "failed", "syncs",
)  # fmt: skip
_PAGE = 4_096


def required() -> Path:
    """The library; without a compiler the test is skipped here, and fails in CI."""
    missing = reason_not_here()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return built()


def reason_not_here() -> str:
    """Reason why faults cannot be injected on this machine; empty when they can."""
    if os.uname().sysname != "Linux":
        return "faults are injected by LD_PRELOAD, which only Linux has"
    return "" if shutil.which("cc") else "no C compiler (cc) to build the fault library with"


@functools.cache
def built() -> Path:
    """The compiled library.

    Raises:
        subprocess.CalledProcessError: the compiler refused.
    """
    target = Path(tempfile.mkdtemp(prefix="ragmon-faults-")) / "preload.so"
    warnings = ("-Wall", "-Wextra", "-Werror")
    flags = ("-O2", "-shared", "-fPIC", *warnings, "-o", target, SOURCE, "-ldl", "-lpthread")
    subprocess.run(["cc", *flags], check=True)
    return target


class Faults:
    """What goes wrong now, in every process that was started with its environment."""

    def __init__(self, folder: Path, under: Path) -> None:
        """Make the controls.

        Args:
            folder: for the control page and for what is durable.
            under: folder whose files are meant; it need not exist yet.
        """
        self.durable = folder / "durable"
        self.under = under
        self.durable.mkdir(parents=True)
        self._path = folder / "control"
        self._path.write_bytes(bytes(_PAGE))
        self._file = self._path.open("r+b")
        self._page = mmap.mmap(self._file.fileno(), _PAGE)

    def environment(self, *, losing_power: bool = False) -> dict[str, str]:
        """Variables for the process; ``losing_power`` keeps account of what is durable."""
        variables = {
            "LD_PRELOAD": str(built()),
            "FAULTS_CONTROL": str(self._path),
            "FAULTS_UNDER": f"{self.under}/",  # and not the log beside it
        }
        return variables | ({"FAULTS_DURABLE": str(self.durable)} if losing_power else {})

    def set(self, **values: int) -> None:
        """Have something go wrong from now on, or no longer (0)."""
        for name, value in values.items():
            struct.pack_into("<q", self._page, 8 * _FIELDS.index(name), value)

    def get(self, name: str) -> int:
        """A field: what is set, or how often something happened."""
        value: int = struct.unpack_from("<q", self._page, 8 * _FIELDS.index(name))[0]
        return value

    @contextmanager
    def during(self, **values: int) -> Iterator[None]:
        """Have something go wrong while the block runs."""
        self.set(**values)
        try:
            yield
        finally:
            self.set(**dict.fromkeys(values, 0))

    def step_clock(self, seconds: float) -> None:
        """Step the wall clock from where it stands."""
        self.set(clock_us=self.get("clock_us") + int(seconds * 1e6))

    @property
    def clock_offset_s(self) -> float:
        """Seconds that the wall clock of the process is ahead."""
        return self.get("clock_us") / 1e6

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()
        self._file.close()
