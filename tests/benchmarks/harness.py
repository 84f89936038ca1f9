"""What the benchmarks share: synthetic records, a daemon process, a load generator, a floor."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from urllib.parse import urlsplit

import numpy as np

_TICKS = os.sysconf("SC_CLK_TCK")


def synthetic(count: int, *, seed: int = 0, now: float, spread_s: float = 0.0) -> list[bytes]:
    """JSON records of about 3 KB: query, answer of 30-90 words, five chunks of 54 words.

    Chunks come from a knowledge base of 5,000 passages; words are drawn at random with their
    frequency in the Python reference. Twenty pipelines, two versions, three tenants; 15 % carry
    feedback.
    """
    words = " ".join(topics.values()).split()
    base = random.Random(0)
    passages = [" ".join(base.choices(words, k=54)) for _ in range(5_000)]
    rng = random.Random(seed)

    def text(size: int) -> str:
        return " ".join(rng.choices(words, k=size))

    records = []
    for at in range(count):
        found = rng.sample(range(len(passages)), 5)
        chunks = [
            {
                "id": f"doc-{doc}",
                "score": round(1 - 0.1 * rank * rng.random(), 4),
                "text": passages[doc],
                "source": f"kb/{doc % 900}.md",
            }
            for rank, doc in enumerate(found)
        ]
        record = {
            "query_id": f"{rng.getrandbits(128):032x}",
            "timestamp": now - spread_s * (1 - at / count),
            "pipeline": f"pipeline-{rng.randrange(20)}",
            "version": f"v{rng.randrange(2)}",
            "tags": {"tenant": f"t{rng.randrange(3)}"},
            "query": text(12),
            "answer": text(rng.randint(30, 90)),
            "chunks": chunks,
            "citations": [chunk["id"] for chunk in chunks[: rng.randrange(4)]],
            "latency_ms": {
                "total": rng.lognormvariate(6.5, 0.5),
                "retrieval": rng.lognormvariate(4, 0.5),
                "generation": rng.lognormvariate(6.3, 0.5),
            },
            "tokens": {"prompt": rng.randrange(400, 4000), "completion": rng.randrange(30, 400)},
            "model": "model-a",
        }
        if rng.random() < 0.15:
            record["feedback"] = rng.choice(["positive", "negative"])
        records.append(json.dumps(record).encode())
    return records


def batches(records: Sequence[bytes], size: int) -> list[bytes]:
    """NDJSON bodies."""
    return [b"\n".join(records[at : at + size]) for at in range(0, len(records), size)]


@dataclass
class Daemon:
    """A running `ragmon serve`."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def cpu_s(self) -> float:
        """User and system seconds so far, of every thread."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self, name: str = "VmRSS") -> float:
        """Resident megabytes now (VmRSS) or at most (VmHWM)."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        raise RuntimeError(name)

    def get(self, path: str) -> bytes:
        """One GET."""
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return answer.read()

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def daemon(data_dir: Path, *flags: str) -> Iterator[Daemon]:
    """`ragmon serve` on a free port, ready."""
    command = [
        sys.executable,
        "-m",
        "ragmon",
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(data_dir),
        "--log.format",
        "json",
        *flags,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            event = json.loads(line) if line.startswith(b"{") else {"event": line.decode()}
            url = event.get("url", url)
            if event["event"] == "restored":
                break
        else:
            raise RuntimeError("the daemon did not start")
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        yield Daemon(process, url)
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        drain.wait(10)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@dataclass
class Load:
    """What a load run saw."""

    wall_s: float
    latencies_ms: np.ndarray
    accepted: int
    refused: int

    def latency(self, quantile: float) -> float:
        """Milliseconds."""
        return float(np.quantile(self.latencies_ms, quantile))


def post_all(
    url: str, bodies: Sequence[bytes], *, connections: int = 8, rate: float | None = None
) -> Load:
    """POST every body over keep-alive connections; at a fixed rate of requests when given."""
    return asyncio.run(_post_all(url, list(bodies), connections, rate))


async def _post_all(url: str, bodies: list[bytes], connections: int, rate: float | None) -> Load:
    parts = urlsplit(url)
    queue = iter(enumerate(bodies))
    latencies: list[float] = []
    counts = {"accepted": 0, "refused": 0}
    start = time.perf_counter()

    async def work() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for at, body in queue:
            due = start + at / rate if rate else time.perf_counter()
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            sent = due if rate else time.perf_counter()
            writer.write(
                b"POST /v1/queries HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/x-ndjson\r\nContent-Length: "
                + str(len(body)).encode()
                + b"\r\n\r\n"
                + body
            )
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            answer = await reader.readexactly(size)
            latencies.append(1000 * (time.perf_counter() - sent))
            if head.startswith(b"HTTP/1.1 200"):
                counts["accepted"] += json.loads(answer)["accepted"]
            else:
                counts["refused"] += 1
        writer.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    return Load(
        time.perf_counter() - start, np.array(latencies), counts["accepted"], counts["refused"]
    )


def cpu_per(count: int, function, *args) -> float:
    """Microseconds of CPU for each of ``count`` items; the best of five runs."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        function(*args)
        best = min(best, time.process_time() - started)
    return 1e6 * best / count
