"""What a span costs, from protobuf to a stored query, against parsing the protobuf alone.

Run it by itself: ``python tests/benchmarks/bench_otlp.py``. The ratios are to be trusted; the
microseconds are those of this machine in this run.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

sys.path.insert(0, str(Path(__file__).parents[2]))

from ragmon.sources.otlp.receiver.assembly import Assembly, TraceTimeouts
from ragmon.sources.otlp.spans import pack, unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.sources.otlp.wire import protobuf
from ragmon.stores.protocols import SpanRow
from tests.support.otlp import NOW, captured, rig

FOLDERS = ("oi-langchain", "tl-langchain", "genai-semconv")
COPIES = 60
MOST_TIMES_PARSING = 60.0 / 1.4  # 60 us on the machine where parsing takes 1.4 us
MOST_DECODE_TIMES_PARSING = 1e6 / 60_000 / 1.4  # 60,000 spans a second there


def requests():
    """Each capture as one request, many times over with other trace ids."""
    bodies = []
    for folder in FOLDERS:
        whole = ExportTraceServiceRequest()
        for each in captured(folder):
            whole.MergeFromString(each.plain)
        bodies += [_renamed(whole, number) for number in range(COPIES)]
    return bodies


def _renamed(request, number):
    copy = ExportTraceServiceRequest()
    copy.CopyFrom(request)
    for resource_spans in copy.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                span.trace_id = number.to_bytes(4, "big") + span.trace_id[4:]
    return copy.SerializeToString()


def cpu(function):
    """CPU seconds of this process, and the result; the collector is set as in the daemon."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    started = time.process_time()
    result = function()
    return time.process_time() - started, result


def measure():
    """CPU microseconds a span, by stage."""
    bodies = requests()
    parse_s, parsed = cpu(lambda: [ExportTraceServiceRequest.FromString(body) for body in bodies])
    del parsed
    decode_s, decoded = cpu(
        lambda: [span for body in bodies for each in protobuf.decode(body) for span in each.spans]
    )
    pack_s, parts = cpu(lambda: pack(decoded))
    map_s, _ = cpu(lambda: [map_trace(unpack((part.body,)), NOW) for part in parts])
    spans = len(decoded)
    with tempfile.TemporaryDirectory() as folder, rig(Path(folder) / "data") as site:
        site.source._options = _unlimited(site.source._options)
        whole_s, _ = cpu(lambda: _through(site, bodies))
        assert site.stored() == COPIES * 66
    return spans, {
        "parse protobuf": parse_s,
        "decode": decode_s,
        "pack": pack_s,
        "unpack and map": map_s,
        "protobuf to stored query": whole_s,
    }


def _unlimited(options):
    import msgspec

    limits = msgspec.structs.replace(options.limits, body=1 << 30, decompressed=1 << 30)
    return msgspec.structs.replace(options, limits=limits)


def _through(site, bodies):
    for body in bodies:
        assert site.send(body).status == 200
        if site.source.worker.is_behind:
            site.source.worker.step()  # its thread does in the daemon
    site.wait()


HALF_FINISHED = 1_000_000


def waiting_megabytes(spans_a_trace):
    """Resident megabytes that a million spans of half-finished traces take, in a fresh process."""
    code = f"import bench_otlp; bench_otlp.fill({spans_a_trace})"
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(ended.stdout)


def fill(spans_a_trace):
    """Let a million spans wait, and print the megabytes this process reached."""
    assembly = Assembly(TraceTimeouts())
    body = bytes(1_000)
    for number in range(HALF_FINISHED // spans_a_trace):
        part = SpanRow(number.to_bytes(16, "big"), spans_a_trace, False, body * spans_a_trace)
        assembly.add(part, now=0.0)
        if number % 1000 == 0:
            assembly.due(now=0.0)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


@pytest.mark.benchmark
def test_cost_of_a_span():
    spans, seconds = measure()
    floor = seconds["parse protobuf"]
    print(f"\n{spans} spans")
    for stage, took in seconds.items():
        print(f"{stage:<26}{1e6 * took / spans:>8.1f} us/span{took / floor:>8.1f} x parsing")
    print(f"decode: {spans / seconds['decode']:,.0f} spans/s")
    assert seconds["protobuf to stored query"] / floor < MOST_TIMES_PARSING
    assert seconds["decode"] / floor < MOST_DECODE_TIMES_PARSING


@pytest.mark.benchmark
@pytest.mark.parametrize("spans_a_trace", [1, 5])
def test_a_million_waiting_spans(spans_a_trace):
    megabytes = waiting_megabytes(spans_a_trace)
    print(f"\n{HALF_FINISHED:,} spans, {spans_a_trace} a trace: {megabytes:.0f} MB")
    assert megabytes < 300


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-s", "-p", "no:cacheprovider", __file__]))
