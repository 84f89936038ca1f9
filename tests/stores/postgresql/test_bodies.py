"""Bodies of blocks in an object store: moved, read, erased, deleted, whatever happens to it."""

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from ragmon.errors import StoreBodiesError, StoreFencedError, StoreFullError
from ragmon.loops import Loop
from ragmon.records import Position
from ragmon.stores.copying import StoreCopy
from ragmon.stores.erasure import ErasedBlock
from ragmon.stores.postgresql.bodies import S3Bodies, mover, open_bodies, sweeping
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from ragmon.stores.postgresql.shards import PostgresShards
from ragmon.stores.postgresql.store import inspect
from ragmon.stores.sqlite import Options, build
from tests.support.object_store import KEY, SECRET, ObjectStore, moto, s3s
from tests.support.postgres import new_schema, shared_server
from tests.support.stores import commit_of

OLD = 1_000.0  # long ago: bodies of then may move


@pytest.fixture(scope="module", params=["moto", "s3s"])
def server(request, tmp_path_factory) -> Iterator[ObjectStore]:
    if request.param == "moto":
        with moto() as store:
            yield store
    else:
        with s3s(tmp_path_factory.mktemp("buckets")) as store:
            yield store


class Site:
    """A store whose bodies go to a bucket of its own; its mover turns when it is asked to."""

    def __init__(self, server: ObjectStore, **options) -> None:
        self.server = server
        self.schema = new_schema()
        self.bucket = self.schema.replace("_", "-")
        self.options = {"object_bytes": 4_096, "read_timeout_s": 2.0} | options
        server.make(self.bucket)
        self.open()

    def open(self, **options) -> None:
        settings = {
            "kind": "s3", "bucket": self.bucket, "endpoint": self.server.url,
            "access_key": KEY, "secret_key": SECRET,
        }  # fmt: skip
        bodies = open_bodies(S3Bodies.model_validate(settings | self.options | options))
        access = DatabaseAccess(dsn=shared_server().url, bodies=bodies)
        self.bodies = bodies
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Loop, "start", lambda _: None)  # the test turns it
            self.store = open_store(access, self.schema, ttl_s=600.0, wait_s=0.0, owner="test")
        self.mover = self.store.bodies
        self.shard = self.store.shards[0]
        self.is_closed = False

    def close(self) -> None:
        if not self.is_closed:
            self.store.close()
        self.is_closed = True

    def reopen(self, **options) -> None:
        self.close()
        self.open(**options)

    def commit(self, *ids: str, at: float = OLD) -> None:
        first = self.shard.next_sequence
        self.shard.commit(commit_of(self.store, ids, [at] * len(ids)))
        assert self.shard.next_sequence == first + len(ids)

    def fill(self, blocks: int = 4, records: int = 20) -> list[str]:
        """Blocks of about a kilobyte."""
        names = []
        for block in range(blocks):
            ids = [f"{block}-{at}-{'x' * 9}{hash((block, at))}" for at in range(records)]
            self.commit(*ids)
            names += ids
        return names

    def turn(self) -> None:
        self.mover.turn()

    def counted(self) -> None:
        """Have windows and detectors count everything."""
        position = Position(self.shard.next_sequence, self.shard.last_restatement)
        self.store.state.save_windows(iter(()), b"", {0: position})

    def read(self) -> list[str]:
        """Every record, through a reader."""
        records = []
        with self.store.reader() as reader:
            for times in reader.block_times():
                records += map(msgspec.msgpack.decode, reader.records(times.first_sequence))
        return records

    def rows(self, sql: str, *values):
        return shared_server().execute(sql.replace("@", self.schema), values)

    def objects(self) -> dict[str, int]:
        listed = self.server.keys(self.bucket)
        return {key: size for key, size in listed.items() if not key.endswith("owner.json")}

    def moved(self) -> int:
        return self.rows("SELECT count(*) FROM @.blocks WHERE object IS NOT NULL")[0][0]


@pytest.fixture
def site(server) -> Iterator[Site]:
    made = Site(server)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def no_grace(monkeypatch):
    monkeypatch.setattr(mover, "_GRACE_S", 0.0)


def test_bodies_leave_the_database_and_are_read_as_before(site):
    names = site.fill()
    before = site.rows("SELECT sum(octet_length(body)) FROM @.blocks")[0][0]
    site.turn()
    assert site.moved() == 4
    assert site.rows("SELECT sum(octet_length(body)) FROM @.blocks")[0][0] == 4 * 32
    assert sum(site.objects().values()) == before
    assert site.read() == names
    assert msgspec.msgpack.decode(site.shard.record(5)) == names[5]
    site.turn()
    assert sum(site.objects().values()) == before


def put_records(site: Site, first: int, records: list[str]) -> None:
    """Replace the records of a block, as an erasure does."""
    with site.store.reader() as reader:
        block = reader.stored_block(first)
    erasure = site.shard.erasure()
    body = erasure.pack(msgspec.msgpack.encode(records), first)
    erased = ErasedBlock(
        first_sequence=first, stored=block.stored, body=body, sequences=[first],
        amend=lambda _, amendment: amendment,
    )  # fmt: skip
    assert erasure.swap(erased, None)


def purge(site: Site, steps: int = 60) -> bool:
    erasure = site.shard.erasure()
    return any(erasure.purge() for _ in range(steps))


def test_what_is_erased_leaves_the_bucket_too(site, monkeypatch):
    monkeypatch.setattr(mover, "_GRACE_S", 3_600.0)
    names = site.fill()
    site.turn()
    before = set(site.objects())
    put_records(site, 20, ["gone", *names[21:40]])
    expected = [*names[:20], "gone", *names[21:]]
    assert site.read() == expected
    assert not purge(site)  # an object still has it
    site.turn()  # rewrites
    assert site.read() == expected
    assert not purge(site)
    monkeypatch.setattr(mover, "_GRACE_S", 0.0)
    site.turn()  # deletes
    assert purge(site)
    assert not before & set(site.objects())
    assert site.read() == expected
    site.turn()
    assert site.moved() == 4  # the erased block, too
    assert site.read() == expected


def test_an_erasure_between_reading_and_moving_leaves_nothing_behind(site, monkeypatch):
    names = site.fill()
    put = site.bodies.put

    def erased_meanwhile(key, body):
        if not key.endswith("owner.json"):
            monkeypatch.setattr(site.bodies, "put", put)
            put_records(site, 20, ["gone", *names[21:40]])
        put(key, body)

    monkeypatch.setattr(site.bodies, "put", erased_meanwhile)
    site.turn()
    while not purge(site):
        site.turn()
    expected = [*names[:20], "gone", *names[21:]]
    assert site.read() == expected
    content = b"".join(
        site.server.client(site.bucket).ask("GET", key).content for key in site.objects()
    )
    assert b"gone" not in content or names[20].encode() not in content
    states = site.rows("SELECT state, is_erased, count(*) FROM @.body_objects GROUP BY 1, 2")
    assert [row[:2] for row in states] == [("stored", False)]
    sizes = site.rows("SELECT sum(size)::int FROM @.body_objects")[0][0]
    assert sum(site.objects().values()) == sizes


def test_objects_go_with_the_days_of_their_blocks(site):
    site.fill()
    site.turn()
    site.counted()
    assert site.objects()
    while site.shard.expire(OLD + 1.0, None):
        pass
    assert site.read() == []
    for _ in range(2):
        site.turn()
    assert site.objects() == {}
    assert site.rows("SELECT count(*) FROM @.body_objects") == [(0,)]


def test_the_size_of_the_store_is_what_the_database_has(site):
    site.fill(blocks=8)
    full = site.shard._maintenance._live_bytes
    site.turn()
    site.counted()
    site.shard.expire(0.0, None)
    live = site.rows("SELECT sum(size)::int FROM @.blocks")[0][0]
    assert site.shard._maintenance._live_bytes == live
    assert 0 < live < full
    put_records(site, 20, ["gone", *site.read()[21:40]])
    site.shard.expire(0.0, None)
    more = site.rows("SELECT sum(size)::int FROM @.blocks")[0][0]
    assert site.shard._maintenance._live_bytes == more > live


def test_a_mover_that_dies_after_writing_leaves_nothing_in_the_bucket(site, monkeypatch):
    names = site.fill()
    monkeypatch.setattr(site.mover._table, "fill", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        site.turn()
    assert site.objects()
    orphans = set(site.objects())
    site.reopen()
    for _ in range(3):
        site.turn()
    assert not orphans & set(site.objects())
    assert site.moved() == 4
    assert site.read() == names


def test_a_mover_that_was_replaced_changes_nothing(site, monkeypatch):
    names = site.fill()
    put = site.bodies.put

    def replaced(key, body):
        put(key, body)
        if not key.endswith("owner.json"):
            site.rows("UPDATE @.lease SET epoch = epoch + 1, owner = 'other' RETURNING 1")

    monkeypatch.setattr(site.bodies, "put", replaced)
    with pytest.raises(StoreFencedError):
        site.turn()
    assert site.moved() == 0
    assert site.read() == names


def test_an_object_that_nobody_knows_is_deleted_when_it_is_old(site, monkeypatch):
    site.fill()
    site.turn()
    known = set(site.objects())
    folder = next(iter(known)).rsplit("/", 2)[0]
    site.server.client(site.bucket).ask("PUT", f"{folder}/1970-01-01/0-orphan", body=b"x")
    site.mover._sweeper._due_at = 0.0
    site.turn()
    assert len(site.objects()) == len(known) + 1
    monkeypatch.setattr(sweeping, "_AGE_S", -60.0)
    site.mover._sweeper._due_at = 0.0
    for _ in range(2):
        site.turn()
    assert set(site.objects()) == known


def test_a_store_elsewhere_keeps_its_hands_off(site):
    site.fill()
    site.turn()
    owner = next(key for key in site.server.keys(site.bucket) if key.endswith("owner.json"))
    site.server.client(site.bucket).ask(
        "PUT", owner, body=b'{"server": "7", "database": 5, "schema": "ragmon"}'
    )
    site.reopen()
    site.commit("late")
    with pytest.raises(StoreBodiesError, match=r"belongs to another database.*read_only.*delete"):
        site.turn()
    assert len(site.read()) == 81  # reading goes on


def test_objects_that_were_left_in_another_place_are_missed(site):
    site.fill()
    site.turn()
    site.reopen(prefix="elsewhere")
    with pytest.raises(StoreBodiesError, match=r"4 objects of this store are not below|objects of"):
        site.turn()


def test_a_copy_only_reads(site):
    names = site.fill()
    site.turn()
    site.reopen(read_only=True)
    assert site.mover is None
    assert site.read() == names


def test_without_the_setting_bodies_that_were_moved_are_told(site):
    site.fill()
    site.turn()
    site.close()
    access = DatabaseAccess(dsn=shared_server().url)
    store = open_store(access, site.schema, ttl_s=600.0, wait_s=0.0, owner="test")
    with closing(store), store.reader() as reader:
        with pytest.raises(StoreBodiesError, match=r"Set store\.bodies"):
            reader.records(0)
        assert reader.block(0) is not None  # what is counted is in the database


def test_a_missing_object_costs_only_its_queries(site):
    names = site.fill()
    site.turn()
    lost = site.rows(
        "SELECT key FROM @.body_objects JOIN @.blocks ON object = number WHERE first_sequence = 20"
    )[0][0]
    site.bodies.delete(lost)
    firsts = site.rows("SELECT first_sequence FROM @.blocks JOIN @.body_objects ON object = number"
                       " WHERE key = %s", lost)  # fmt: skip
    gone = {first + at for (first,) in firsts for at in range(20)}
    assert site.read() == [name for at, name in enumerate(names) if at not in gone]
    assert site.store.damage.counts()["block"] == len(firsts)
    assert site.bodies.counts()["get", "missing"] >= len(firsts)
    assert site.shard.record(20) is None
    site.commit("new")  # nothing else notices


@pytest.mark.parametrize("change", ["flipped", "cut", "other"])
def test_a_damaged_object_is_never_believed(site, change):
    names = site.fill()
    site.turn()
    [(key,)] = site.rows(
        "SELECT key FROM @.body_objects JOIN @.blocks ON object = number WHERE first_sequence = 60"
    )
    client = site.server.client(site.bucket)
    full = f"ragmon/{key}"
    content = bytearray(client.ask("GET", full).content)
    if change == "flipped":
        content[-1] ^= 1
    elif change == "cut":
        del content[-5:]
    else:
        content[:] = bytes(len(content))
    client.ask("PUT", full, body=bytes(content))
    read = site.read()
    assert names[60] not in read
    assert names[0] in read or change == "other"
    assert site.bodies.counts()["get", "damaged"] >= 1
    assert site.store.damage.counts()["block"] >= 1


def test_bodies_wait_while_the_object_store_is_away(site):
    names = site.fill()
    site.server.kill()
    try:
        with pytest.raises(StoreBodiesError, match="does not answer"):
            site.turn()
        assert site.mover.pending.size_bytes > 4 * 32
        site.commit("meanwhile")
        assert site.read() == [*names, "meanwhile"]
    finally:
        site.server.start()
    site.server.make(site.bucket)  # moto forgets
    site.turn()
    assert site.moved() == 5
    assert site.read() == [*names, "meanwhile"]


def test_a_server_that_hangs_is_left_alone_for_a_while(site):
    names = site.fill()
    site.turn()
    site.server.stop()
    try:
        with site.store.reader() as reader:
            with pytest.raises(StoreBodiesError, match=r"Timeout|ConnectionError"):
                reader.records(0)
            before = site.bodies.counts()["get", "unreachable"]
            with pytest.raises(StoreBodiesError):  # without waiting
                reader.records(20)
        assert before == 1
        assert site.bodies.counts()["get", "unreachable"] == before
        with pytest.raises(StoreBodiesError):
            site.shard.record(20)
        assert site.store.damage.counts()["block"] == 0
    finally:
        site.server.go_on()
    site.bodies._silent_until = site.bodies._quick_silent_until = 0.0
    assert site.read() == names


def test_a_bucket_that_is_missing_is_told_and_is_no_damage(site):
    names = site.fill()
    site.turn()
    site.reopen(bucket="not-there")
    site.commit("late")
    with pytest.raises(StoreBodiesError, match=r"NoSuchBucket.*Check bucket, region, endpoint"):
        site.turn()
    with site.store.reader() as reader, pytest.raises(StoreBodiesError, match="NoSuchBucket"):
        reader.records(0)
    assert site.store.damage.counts()["block"] == 0
    assert site.bodies.counts()["get", "refused"] >= 1
    site.reopen()
    assert site.read() == [*names, "late"]


def test_a_wrong_key_is_told_and_a_new_one_needs_no_restart(site, tmp_path, request):
    if "moto" in request.node.name:
        pytest.skip("moto believes every key")
    names = site.fill()
    secret = tmp_path / "secret"
    secret.write_text("wrong")
    site.reopen(secret_key=None, secret_key_file=str(secret))
    with pytest.raises(StoreBodiesError, match=r"403: SignatureDoesNotMatch"):
        site.turn()
    assert site.moved() == 0
    assert "wrong" not in str(site.bodies.counts())
    secret.write_text(SECRET)
    site.turn()
    assert site.moved() == 4
    assert site.read() == names


def test_the_versions_of_an_erased_object_go_too(site, request):
    if "moto" not in request.node.name:
        pytest.skip("s3s has no versions")
    body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    client = site.server.client(site.bucket)
    client.ask("PUT", "", {"versioning": ""}, body=body)
    names = site.fill()
    site.turn()
    before = set(site.objects())
    put_records(site, 20, ["gone", *names[21:40]])
    while not purge(site):
        site.turn()
    versions = client.xml(client.ask("GET", "", {"versions": ""}))
    left = {item.findtext("{*}Key") for item in versions if item.find("{*}VersionId") is not None}
    assert left
    assert not left & before


def test_bodies_of_every_shard_are_moved_by_the_one_that_has_the_lease(site):
    names = site.fill()
    site.store.share()
    access = DatabaseAccess(dsn=shared_server().url, bodies=site.bodies)
    with closing(PostgresShards(access, site.schema, "a worker")) as shards:
        shard = shards.take(1)
        commit = commit_of(site.store, ["a", "b"], [OLD, OLD])
        shard.commit(commit)
        site.turn()
        assert site.moved() == 5
        assert {key.rsplit("/")[-1][:2] for key in site.objects()} == {"0-", "1-"}
        assert msgspec.msgpack.decode(shard.record(1)) == "b"
        shard.commit(commit_of(site.store, ["c"], [OLD]))  # the worker goes on
    assert site.read() == [*names, "a", "b", "c"]


def test_a_copy_of_the_store_has_the_bodies(site, tmp_path):
    names = site.fill()
    site.turn()
    site.counted()
    target = build(Options(), tmp_path)
    with closing(target):
        StoreCopy(site.store.tables(), target.tables(), "site").run()
    again = build(Options(), tmp_path)
    with closing(again), again.reader() as reader:
        copied = [
            msgspec.msgpack.decode(record)
            for times in reader.block_times()
            for record in reader.records(times.first_sequence)
        ]
    assert copied == names


def test_beyond_the_limit_new_queries_wait_too(server, monkeypatch):
    site = Site(server, max_pending_bytes=1 << 20)
    monkeypatch.setattr(site.mover.pending, "_most_bytes", 1_000)
    with closing(site):
        names = site.fill()
        good, site.bodies.put = site.bodies.put, None
        with pytest.raises(TypeError):
            site.turn()
        site.commit("still taken, and told")
        with pytest.raises(StoreFullError, match=r"max_pending_bytes"):
            site.commit("refused")
        site.bodies.put = good
        site.mover.pending._measured_at = None
        site.turn()
        site.mover.pending._measured_at = None
        site.turn()
        site.commit("taken")
        assert site.read() == [*names, "still taken, and told", "taken"]


def test_a_ragmon_that_knows_nothing_of_bodies_is_kept_away(server):
    site = Site(server, read_only=True)
    with closing(site):
        site.rows("INSERT INTO @.meta VALUES ('readable_by', '1') RETURNING 1")
        access = DatabaseAccess(dsn=shared_server().url)
        assert inspect(access, site.schema).readable_by == 1  # no body was moved yet
        site.reopen(read_only=False)
        assert inspect(access, site.schema).readable_by == 2
