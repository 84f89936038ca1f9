"""Limits and use of memory, as the kernel writes them down."""

from pathlib import Path

import pytest

from ragmon.daemon.process_memory import cgroup_limit, default_limit, used_bytes

GIB = 1 << 30
MEMINFO = f"MemTotal:       {64 * GIB >> 10} kB\nMemFree: 1 kB\n"


def machine(root: Path, cgroup: str, **files: str) -> Path:
    """A root folder with these files below ``/sys/fs/cgroup``; ``__`` separates folders."""
    written = {
        "proc/self/cgroup": cgroup,
        "proc/meminfo": MEMINFO,
        **{f"sys/fs/cgroup/{name.replace('__', '/')}": text for name, text in files.items()},
    }
    for name, text in written.items():
        path = root / name.replace("max", "memory.max").replace("v1", "memory.limit_in_bytes")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        pytest.param("0::/\n", {"max": f"{GIB}\n"}, GIB, id="a container"),
        pytest.param("0::/\n", {"max": "max\n"}, None, id="a container without a limit"),
        pytest.param("0::/a/b\n", {"a__b__max": f"{2 * GIB}\n"}, 2 * GIB, id="a service"),
        pytest.param(
            "0::/a/b\n",
            {"a__b__max": f"{2 * GIB}\n", "a__max": f"{GIB}\n"},
            GIB,
            id="a smaller limit around it",
        ),
        pytest.param("0::/a/b\n", {"max": f"{GIB}\n"}, GIB, id="a path outside of the container"),
        pytest.param("4:memory:/x\n0::/\n", {"memory__x__v1": f"{GIB}\n"}, GIB, id="version 1"),
        pytest.param("4:memory:/x\n", {"memory__v1": f"{GIB}\n"}, GIB, id="version 1, contained"),
        pytest.param("3:cpuset:/x\n", {"memory__x__v1": f"{GIB}\n"}, None, id="not of memory"),
        pytest.param("", {}, None, id="no cgroups"),
    ],
)
def test_cgroup_limit(tmp_path, cgroup, files, limit):
    assert cgroup_limit(machine(tmp_path, cgroup, **files)) == limit


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        pytest.param({"max": f"{4 * GIB}\n"}, 3 * GIB, id="three quarters of the limit"),
        pytest.param({}, GIB, id="a gibibyte without one"),
        pytest.param({"max": f"{1 << 62}\n"}, GIB, id="more than there is is no limit"),
    ],
)
def test_default_limit(tmp_path, files, limit):
    assert default_limit(machine(tmp_path, "0::/\n", **files)) == limit


def test_a_small_machine_has_less_than_the_default(tmp_path):
    root = machine(tmp_path, "")
    (root / "proc/meminfo").write_text("MemTotal: 524288 kB\n")
    assert default_limit(root) == 384 << 20


def test_without_proc_there_is_a_default_and_nothing_is_measured(tmp_path):
    assert default_limit(tmp_path) == GIB
    assert used_bytes(tmp_path) is None


def test_used_bytes_counts_children_and_not_files(tmp_path):
    for process, statm in (("self", "900 500 100 0 0 0 0"), ("7", "90 50 10 0 0 0 0")):
        (tmp_path / "proc" / process).mkdir(parents=True)
        (tmp_path / "proc" / process / "statm").write_text(statm)
    task = tmp_path / "proc/self/task/1"
    task.mkdir(parents=True)
    (task / "children").write_text("7 8 \n")  # 8 has ended
    assert used_bytes(tmp_path) == (400 + 40) * 4096
