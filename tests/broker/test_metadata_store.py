"""The metadata file: what was acknowledged is there after any crash, and what was not is there whole or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.controller import Controller, Decision
from broker.metadata_image import MetadataDelta, MetadataImage
from broker.metadata_store import FILE_NAME, MetadataStore, MetadataStoreError, frame, unframe
from broker.topic_admin import NewTopic, TopicDefaults, TopicSpec, new_topics, removal_record
from protocol.messages.topic_records import NoOpRecord, ProducerIdsRecord, TopicRecord
from protocol.records.batch import RecordBatch, build_batch
from protocol.wire import ZERO_UUID, Uuid
from storage.env import Buffer, RealEnv, RealFile
from tests.broker.held_runner import HeldRunner


class Disk(RealEnv):
    """The real disk, but that it does as it is told: fail the next syncs, have room for so many bytes."""

    def __init__(self) -> None:
        self.failing_syncs = 0
        self.room: int | None = None
        self.syncs = 0

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        real = super().open(path, create=create, write=write)
        file = DiskFile(self, real.fd)
        real.fd = -1
        return file

    def sync_dir(self, path: str) -> None:
        """Nothing: a process that does not die needs no sync."""


class DiskFile(RealFile):
    __slots__ = ("disk",)

    def __init__(self, disk: Disk, fd: int) -> None:
        super().__init__(fd)
        self.disk = disk

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        room = self.disk.room
        if room is None:
            return super().pwritev(buffers, position)
        written = super().pwritev([b"".join(buffers)[:room]], position)
        self.disk.room = room - written
        return written

    def sync(self) -> None:
        self.disk.syncs += 1
        if self.disk.failing_syncs:
            self.disk.failing_syncs -= 1
            raise OSError("input/output error")


@pytest.fixture
def disk() -> Disk:
    return Disk()


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16))


def opened(directory: Path, disk: Disk) -> tuple[MetadataStore, MetadataImage]:
    store = MetadataStore(disk, str(directory))
    return store, store.open()


def reopened(directory: Path, disk: Disk) -> MetadataImage:
    store, image = opened(directory, disk)
    store.close()
    return image


def contents(directory: Path) -> bytes:
    return (directory / FILE_NAME).read_bytes()


# ---- life


def test_a_new_file_is_empty(tmp_path: Path, disk: Disk) -> None:
    store = MetadataStore(disk, str(tmp_path))
    assert not store.exists()
    assert not store.open().topics
    assert store.exists()
    store.close()
    store.close()


def test_what_was_appended_is_there_again_in_order(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("b"), topic("a")])
    store.append([ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000)])
    store.close()
    image = reopened(tmp_path, disk)
    assert [*image.topics] == ["b", "a"]
    assert image.next_producer_id == 1000


def test_every_append_is_synced_before_it_returns(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    before = disk.syncs
    store.append([topic("a")])
    assert disk.syncs == before + 1
    store.close()


def test_a_batch_of_the_file_is_a_record_batch_of_kraft_records(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("a")])
    store.append([topic("b"), topic("c")])
    store.close()
    data = contents(tmp_path)
    first = RecordBatch(data)
    second = RecordBatch(data, first.size_in_bytes)
    assert (first.base_offset, first.record_count, second.base_offset, second.record_count) == (0, 1, 1, 2)
    (record,) = first.records()
    assert record.key is None
    assert record.value == bytes((1, 2, 0)) + b"\x02a" + b"a".ljust(16) + b"\x00"


def test_offsets_go_on_after_a_restart(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("a"), topic("b")])
    store.close()
    store, _ = opened(tmp_path, disk)
    store.append([topic("c")])
    store.close()
    data = contents(tmp_path)
    assert RecordBatch(data, RecordBatch(data).size_in_bytes).base_offset == 2


def test_a_file_of_long_gone_records_is_written_anew(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("a")])
    for block in range(1, 200):
        store.append([ProducerIdsRecord(broker_id=1, next_producer_id=block * 1000)])
    store.close()
    size = len(contents(tmp_path))

    store, image = opened(tmp_path, disk)
    assert ([*image.topics], image.next_producer_id) == (["a"], 199_000)
    assert len(contents(tmp_path)) < size // 10
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    store.append([topic("b")])
    store.close()
    image = reopened(tmp_path, disk)
    assert ([*image.topics], image.next_producer_id) == (["a", "b"], 199_000)


def test_a_file_whose_records_all_came_to_nothing_is_written_anew(tmp_path: Path, disk: Disk) -> None:
    store, image = opened(tmp_path, disk)
    for _ in range(60):
        store.append([topic("a")])
        image, _ = image.apply([topic("a")])
        _, removal = removal_record(image, name="a", topic_id=ZERO_UUID)
        store.append([removal])
        image, _ = image.apply([removal])
    store.close()
    assert not reopened(tmp_path, disk).topics
    assert contents(tmp_path) == b""


# ---- a disk that fails


def test_a_disk_without_room_leaves_nothing_behind(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("a")])
    size = len(contents(tmp_path))
    disk.room = 70
    with pytest.raises(OSError, match="and then nothing"):
        store.append([topic("b")])
    assert len(contents(tmp_path)) == size
    disk.room = None
    store.append([topic("c")])
    store.close()
    assert [*reopened(tmp_path, disk).topics] == ["a", "c"]


def test_a_sync_that_fails_takes_the_append_back(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    disk.failing_syncs = 1
    with pytest.raises(OSError, match="input/output"):
        store.append([topic("a")])
    store.append([topic("b")])
    store.close()
    assert [*reopened(tmp_path, disk).topics] == ["b"]


def test_a_store_that_is_not_open_takes_nothing(tmp_path: Path, disk: Disk) -> None:
    with pytest.raises(AssertionError, match="not open"):
        MetadataStore(disk, str(tmp_path)).append([topic("a")])


# ---- damage


def test_damage_before_good_records_is_no_crash_and_stops_the_broker(tmp_path: Path, disk: Disk) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("a")])
    store.append([topic("b")])
    store.close()
    data = bytearray(contents(tmp_path))
    data[70] ^= 1
    (tmp_path / FILE_NAME).write_bytes(data)
    with pytest.raises(MetadataStoreError, match="damaged at byte 0"):
        opened(tmp_path, disk)


@pytest.mark.parametrize(
    "length", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x51"]
)
def test_a_last_batch_with_a_bad_length_is_a_torn_one(tmp_path: Path, disk: Disk, length: bytes) -> None:
    store, _ = opened(tmp_path, disk)
    store.append([topic("a")])
    end = len(contents(tmp_path))
    store.append([topic("b")])
    store.close()
    data = bytearray(contents(tmp_path))
    data[end + 8 : end + 12] = length
    (tmp_path / FILE_NAME).write_bytes(data + bytes(50))
    assert [*reopened(tmp_path, disk).topics] == ["a"]
    assert len(contents(tmp_path)) == end


@pytest.mark.parametrize(
    "value",
    [
        b"\x02\x02\x00",
        bytes((1, NoOpRecord.api_key or 0, 0, 0)),
        b"\x01\x63\x00",
        b"\x01\x02\x01",
        b"",
        b"\x01",
    ],
)
def test_a_record_of_a_newer_broker_stops_this_one(tmp_path: Path, disk: Disk, value: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(build_batch([(None, value, -1, ())]))
    with pytest.raises(MetadataStoreError, match="not known"):
        opened(tmp_path, disk)


def test_frames_hold_the_newest_version_and_come_back(tmp_path: Path) -> None:
    record = ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=3)
    assert frame(record, 0)[:3] == bytes((1, 15, 0))
    assert unframe(frame(record, 0)) == record


# ---- histories and crashes


class Node:
    """A controller over a metadata store: what of it is acknowledged, and what is on the disk after each step."""

    def __init__(self, directory: Path, seed: int = 1) -> None:
        self.disk = Disk()
        self.directory = directory
        self.store, image = opened(directory, self.disk)
        self.runner = HeldRunner()
        self.controller = Controller(self.store, image, self.runner, self.publish)
        self.topic_ids = _topic_ids(seed)
        self.states = [(0, names_and_ids(image))]
        """After each acknowledgement: the file's size and what the image said."""

    def publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Nobody else listens here."""

    def create(self, name: str) -> None:
        def decide(image: MetadataImage) -> Decision[None]:
            defaults = TopicDefaults((1,), partition_count=2, replication_factor=1)
            topic = new_topics(image, [TopicSpec(name)], defaults, self.topic_ids.__next__)[name]
            return Decision(None, topic.records if isinstance(topic, NewTopic) else ())

        self._submit(decide)

    def delete(self, name: str) -> None:
        def decide(image: MetadataImage) -> Decision[None]:
            if name not in image.topics:
                return Decision(None)
            return Decision(None, [removal_record(image, name=name, topic_id=ZERO_UUID)[1]])

        self._submit(decide)

    def _submit(self, decide: object) -> None:
        pending = self.controller.submit(decide, lambda error: None)  # type: ignore[arg-type]
        pending.add_done_callback(lambda _: self._acknowledged())

    def _acknowledged(self) -> None:
        self.states.append((len(contents(self.directory)), names_and_ids(self.controller.image)))


def _topic_ids(seed: int) -> Iterator[Uuid]:
    source = random.Random(seed)
    while True:
        yield source.randbytes(16)


def names_and_ids(image: MetadataImage) -> list[tuple[str, Uuid, int]]:
    return [(topic.name, topic.topic_id, len(topic.partitions)) for topic in image.topics.values()]


steps = st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), min_size=1, max_size=12)


def live(directory: Path, history: Sequence[tuple[bool, str]]) -> Node:
    """A node that went through `history`, each change acknowledged before the next."""
    node = Node(directory)
    for is_creation, name in history:
        (node.create if is_creation else node.delete)(name)
        node.runner.release_all()
    return node


@settings(max_examples=60, deadline=None)
@given(history=steps, data=st.data())
def test_a_file_cut_at_any_byte_holds_what_had_been_acknowledged_by_then(
    tmp_path_factory: pytest.TempPathFactory, history: Sequence[tuple[bool, str]], data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("metadata")
    node = live(directory, history)
    node.store.close()
    size = len(contents(directory))
    cut = data.draw(st.integers(0, size), "cut")
    (directory / FILE_NAME).write_bytes(contents(directory)[:cut])

    image = reopened(directory, node.disk)

    expected = [state for end, state in node.states if end <= cut][-1]
    assert names_and_ids(image) == expected


@settings(max_examples=60, deadline=None)
@given(history=steps, seed=st.integers(0, 2**32 - 1))
def test_a_crash_in_the_last_append_leaves_it_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, history: Sequence[tuple[bool, str]], seed: int
) -> None:
    """Of an append that no sync has followed any of its bytes may be missing, not only the last ones."""
    directory = tmp_path_factory.mktemp("metadata")
    node = live(directory, [*history, (True, "last")])
    node.store.close()
    acknowledged_end, acknowledged = node.states[-2]
    whole = contents(directory)
    source = random.Random(seed)
    torn = bytearray(whole)
    for _ in range(source.randrange(3)):
        start = source.randrange(acknowledged_end, len(whole))
        length = source.randrange(len(whole) - start + 1)
        torn[start : start + length] = bytes(length)
    del torn[source.choice([len(whole), source.randrange(acknowledged_end, len(whole))]) :]
    (directory / FILE_NAME).write_bytes(torn)

    image = reopened(directory, node.disk)

    assert names_and_ids(image) == (node.states[-1][1] if torn == whole else acknowledged)


def test_one_change_after_another_survives_restarts(tmp_path: Path) -> None:
    source = random.Random(7)
    expected: list[tuple[str, Uuid, int]] = []
    for life in range(30):
        node = Node(tmp_path, seed=life)
        assert names_and_ids(node.controller.image) == expected
        for _ in range(source.randrange(8)):
            source.choice([node.create, node.delete])(source.choice("abcdefgh"))
            node.runner.release_all()
        expected = names_and_ids(node.controller.image)
        node.store.close()
