"""Memory that the process may use and does use, as Linux tells it in ``/proc`` and the cgroup."""

import contextlib
import resource
from pathlib import Path

WITHOUT_CGROUP = 1 << 30
_PAGE = resource.getpagesize()
_V1_FILES = ("memory.limit_in_bytes",)
_V2_FILES = ("memory.max", "memory.high")  # beyond `high` the process is slowed down, not killed


def default_limit(root: Path = Path("/")) -> int:
    """Three quarters of what the cgroup allows, else 1 GiB, which a smaller machine undercuts.

    Args:
        root: of the file system.
    """
    allowed = cgroup_limit(root)
    present = _physical(root)
    if allowed is None or (present is not None and allowed > present):
        return WITHOUT_CGROUP if present is None else min(WITHOUT_CGROUP, present * 3 // 4)
    return allowed * 3 // 4


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """The smallest limit of the process's cgroup and those around it; None: there is none."""
    mounted = root / "sys/fs/cgroup"
    limits: list[int] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            limits += _limits(mounted, path, _V2_FILES)
        elif "memory" in controllers.split(","):
            limits += _limits(mounted / "memory", path, _V1_FILES)
    return min(limits, default=None)


def used_bytes(root: Path = Path("/")) -> int | None:
    """Memory of the process and its children that cannot be dropped; None where nobody tells."""
    own = root / "proc/self"
    children = {
        int(child) for task in _folders(own / "task") for child in _text(task / "children").split()
    }
    sizes = [_anonymous(own), *(_anonymous(root / "proc" / str(child)) for child in children)]
    return None if sizes[0] is None else sum(size or 0 for size in sizes)


def _limits(mounted: Path, path: str, names: tuple[str, ...]) -> list[int]:
    """The limits of a cgroup and of those around it; in a container its own is the mounted one."""
    inner = mounted / path.strip("/")
    folders = [inner, *(each for each in inner.parents if each.is_relative_to(mounted)), mounted]
    texts = [_text(folder / name).strip() for folder in folders for name in names]
    return [int(text) for text in texts if text.isdecimal()]


def _physical(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) << 10
    return None


def _anonymous(process: Path) -> int | None:
    """Bytes in memory without those of files, which the kernel can drop."""
    fields = _text(process / "statm").split()
    return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else None


def _folders(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(parent.iterdir())
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
