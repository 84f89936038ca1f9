"""``ragmon.yaml``, variables and flags: settings, or an error that names the key."""

import tempfile
from pathlib import Path

from ragmon.config import load
from ragmon.config.loading import keys
from ragmon.errors import SettingsError
from tests.fuzz.guard import said_why
from tests.fuzz.source import Source

_KEYS = (*keys(), "store.path", "sinks.0.kind", "nonsense", "a.b.c", "auth", "judge.llm.model")
_SCALARS = (
    "1", "0", "-1", "0.5", "1e400", ".nan", ".inf", "''", "x", "true", "null", "~", "[]", "{}",
    "5m", "7d", "1h30m", "-5s", "20GB", "1e9999999d", "9" * 400 + "s", "0x10", "1_000", "0o17",
    "!!int z", "!!float z", "!!timestamp x", "!!binary '%'", "!!null x", "!!bool x", "!!set {a}",
    "!!python/object:os.system x", "!!map x", "!!seq x", "2026-13-01", "2026-02-30", "2026-11-22",
    "0001-01-01", "2026-11-22T25:00:00Z", "12:30:45", "190:20:30", "'{'", "\"\\ud800\"", "*a",
    "&a x",
    "&a [*a]", "[1, x]", "{a: 1, a: 2}", "? x", "|\n  a", "%x", "@x", "`x`", "- x", "a: b: c",
    "<<: 1",
    "{kind: sqlite}", "{kind: nothing}", "[{kind: webhook, url: 'https://example.com/'}]",
    "[{kind: jsonl, path: /var/log/x.jsonl}]", "[{name: a, token: b}]", "http://[",
    "http://a:b@c:99999/",
    "[mon, tue]", "24:61", "'12:30'", "(a+)+$", "\"\\0\"", "\t", "'\t'", "5\u0660m", "\u0661",
    "[{kind: threshold, metric: error, limit: 0.01}]", "10.0.0.0/8", "::1", "[::1]:1", "/", "..",
)  # fmt: skip
WORDS = [key.encode() for key in _KEYS] + [each.encode("utf-8", "replace") for each in _SCALARS]
_FILE = Path(tempfile.mkdtemp()) / "ragmon.yaml"


def seeds() -> list[bytes]:
    """A file as people write it, and choices of keys and values."""
    plain = b"port: 8321\nslices: [tenant]\nretention: {records: 7d}\nsinks:\n- kind: stdout\n"
    return [b"\x01" + plain] + [bytes([0]) + bytes((step * at + 5) % 256 for at in range(24))
                                for step in (3, 7, 29, 53, 101)]  # fmt: skip


def run(data: bytes) -> None:
    """Settings, or an error with words in it."""
    source = Source(data)
    flags: dict[str, str] = {}
    variables: dict[str, str] = {}
    if source.byte() & 1:
        _FILE.write_bytes(source.rest())
    else:
        _FILE.write_text(_file(source), encoding="utf-8", errors="surrogatepass")
        flags = dict(source.several(2, lambda: (source.choose(_KEYS), _scalar(source))))
        variables = {
            "RAGMON_" + key.upper().replace(".", "__"): value
            for key, value in source.several(2, lambda: (source.choose(_KEYS), _scalar(source)))
        }
    try:
        load(_FILE, flags, variables)
    except SettingsError as error:
        said_why(error)


def _file(source: Source) -> str:
    lines = []
    for _ in range(source.below(5)):
        *sections, key = source.choose(_KEYS).split(".")
        indent = ""
        for section in sections:
            lines.append(f"{indent}{section}:")
            indent += "  "
        lines.append(f"{indent}{key}: {_scalar(source)}")
    return "\n".join(lines)


def _scalar(source: Source) -> str:
    return source.text(12) if source.chance(48) else source.choose(_SCALARS)
