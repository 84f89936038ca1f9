"""List the partitions of a topic that workers share, or read one on from another place.

Reset takes the partition from its worker, which reads on from the new place within seconds;
where one process reads the topic, stop it first. Messages that are read again are recognised by
their ids and count once; what lies before the new place is not read.
"""

import argparse
from contextlib import ExitStack, closing
from typing import Any

from rich import box
from rich.table import Table

from ragmon.cli import flags
from ragmon.cli.console import complain, say, say_json
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.results import PartitionPlaced, PartitionState
from ragmon.cli.rich_output import standard_output
from ragmon.clock import SystemClock
from ragmon.config import Settings
from ragmon.daemon.build import open_shards
from ragmon.daemon.repositioning import put_position
from ragmon.durations import minute_text
from ragmon.errors import RemoteError, SettingsError
from ragmon.plugins import resolve
from ragmon.sources.kafka.places import stored_place
from ragmon.stores import ShardState


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} list|reset [--partition N --to oldest|end|OFFSET] [--json]"
        " [--config FILE] [--SETTING VALUE ...]"
    )
    add = parser.add_argument
    add("action", choices=("list", "reset"), help="list the partitions, or read one on elsewhere")
    add("--partition", type=int, metavar="N", help="with reset: the partition")
    add("--to", default="", metavar="PLACE", help="with reset: oldest, end, or an offset")
    add("--topic", default="", help="with reset: the topic, where several are read")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the action and print its result."""
    settings = flags.settings(args).settings
    if args.action == "list":
        return _list(settings, as_json=args.json)
    if args.partition is None or not args.to:
        raise SettingsError("reset needs --partition and --to oldest, end or an offset")
    module, options = _source(settings, args.topic)
    places = module.places(options)
    with closing(places):
        key = places.key(args.partition)
        offset, stored = places.at(args.partition, args.to)
    before = put_position(settings, SystemClock(), args.partition, key, stored)
    placed = PartitionPlaced(
        partition=args.partition,
        source=options.name,
        before=None if before is None else _offset(stored_place(before).offset),
        offset=offset,
    )
    if args.json:
        say_json(placed)
    else:
        was = "the oldest message" if placed.before is None else f"{placed.before:,}"
        say(f"Partition {placed.partition} is read from {offset:,} on; it was at {was}.")
    return ExitCode.OK


def _list(settings: Settings, *, as_json: bool) -> int:
    store, _ = resolve("ragmon.stores", "store", settings.store)
    if not hasattr(store, "open_shards"):
        raise SettingsError(
            "this store is for one process, which reads all partitions",
            hint="See ragmon_kafka_lag_records and ragmon_log_stopped_partitions in /metrics",
        )
    shards = open_shards(settings)
    with closing(shards):
        states = _partitions(settings, shards.listed())
    if as_json:
        say_json(states)
    elif states:
        standard_output(markup=False).print(_table(states))
    else:
        say("No topic has been read into this store yet.")
    return ExitCode.FINDING if any(each.stopped for each in states) else ExitCode.OK


def _partitions(settings: Settings, shards: list[ShardState]) -> list[PartitionState]:
    """Stored state of each partition; the brokers tell whether it is still the same topic."""
    states = []
    with ExitStack() as stack:
        topics = {
            options.name: stack.enter_context(closing(module.places(options)))
            for module, options in _sources(settings)
        }
        for shard in shards:
            for name, stored in shard.offsets.items():
                source, _, number = name.rpartition(":")
                if source.startswith("kafka:") and number.isdecimal():
                    cause = _cause(topics, source, stored)
                    states.append(_state(shard, source, int(number), stored, cause))
    return sorted(states, key=lambda each: (each.source, each.partition))


def _cause(topics: dict[str, Any], source: str, stored: bytes) -> str:
    """The reason for not reading on; that of the store alone where the brokers do not answer."""
    topic = topics.get(source)
    if topic is not None:
        try:
            return str(topic.cause(stored))
        except RemoteError as error:
            complain(error)
            del topics[source]
    return stored_place(stored).stopped


def _state(
    shard: ShardState, source: str, partition: int, stored: bytes, cause: str
) -> PartitionState:
    return PartitionState(
        partition=partition,
        source=source,
        offset=_offset(stored_place(stored).offset),
        stopped=cause or None,
        shard=shard.number,
        owner=shard.owner or None,
        epoch=shard.epoch,
        records=shard.records,
        complete_until=shard.complete_until,
    )


def _sources(settings: Settings) -> list[tuple[Any, Any]]:
    """Modules and options of the sources that read a topic."""
    resolved = (
        resolve("ragmon.sources", f"sources.{at}", entry)
        for at, entry in enumerate(settings.sources)
    )
    return [(module, options) for module, options in resolved if hasattr(module, "places")]


def _source(settings: Settings, topic: str) -> tuple[Any, Any]:
    """The module and options of the source that reads the topic."""
    sources = [each for each in _sources(settings) if topic in ("", each[1].topic)]
    if len(sources) != 1:
        named = f" of topic {topic}" if topic else ""
        raise SettingsError(
            f"there are {len(sources)} sources of kind kafka{named}, and one is needed",
            hint="Name the topic with --topic, as in sources",
        )
    return sources[0]


def _offset(offset: int) -> int | None:
    return None if offset < 0 else offset


def _table(states: list[PartitionState]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("source", "partition", "offset", "records", "complete until", "owner", "stopped"):
        is_number = name in ("partition", "offset", "records")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    for state in states:
        until = "" if state.complete_until is None else minute_text(state.complete_until)
        table.add_row(
            state.source,
            str(state.partition),
            "oldest" if state.offset is None else str(state.offset),
            str(state.records),
            until,
            state.owner or "",
            state.stopped or "",
        )
    return table
