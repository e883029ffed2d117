"""Damages for a log directory of tests.storage.verify.verified, each with the checks that must find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.verify.verifier import Check
from tests.storage.fault_env import FaultEnv
from tests.storage.verify.verified import TOPIC


class Damage(NamedTuple):
    """`do` damages a file, chosen by a number, and returns its path; `noticed` are the kinds of findings that must
    appear. `also`: kinds that may appear beside them, as they concern the same bytes.
    """

    do: Callable[[FaultEnv, int], str]
    noticed: frozenset[Check]
    also: frozenset[Check] = frozenset()


def files(env: FaultEnv, suffix: str) -> list[str]:
    """The files that are not empty."""
    return [
        f"{TOPIC}/{name}"
        for name in sorted(env.listdir(TOPIC))
        if name.endswith(suffix) and env.size(f"{TOPIC}/{name}")
    ]


def flip(env: FaultEnv, path: str, at: int, bit: int = 1) -> str:
    data = bytearray(env.read_file(path))
    data[at] ^= bit
    env.write_file(path, bytes(data))
    return path


def positions(env: FaultEnv, path: str) -> list[int]:
    return [batch.position for batch in batches(env.read_file(path))]


def _some_batch(env: FaultEnv, choice: int) -> tuple[str, int]:
    """A .log that is not the last, and the position of one of its batches."""
    paths = files(env, ".log")[:-1]
    path = paths[choice % len(paths)]
    starts = positions(env, path)
    return path, starts[choice // len(paths) % len(starts)]


def body_of_a_batch(env: FaultEnv, choice: int) -> str:
    path, at = _some_batch(env, choice)
    return flip(env, path, at + 66)


def crc_of_a_batch(env: FaultEnv, choice: int) -> str:
    path, at = _some_batch(env, choice)
    return flip(env, path, at + 18)


def magic_of_a_batch(env: FaultEnv, choice: int) -> str:
    path, at = _some_batch(env, choice)
    return flip(env, path, at + 16, 8)


def a_batch_back_in_time(env: FaultEnv, choice: int) -> str:
    """Its offset is that of one before it: no checksum covers it."""
    path, at = _some_batch(env, choice)
    data = bytearray(env.read_file(path))
    batch = RecordBatch(data, at)
    data[at : at + 8] = (batch.base_offset - 100 & (1 << 63) - 1).to_bytes(8, "big")
    env.write_file(path, bytes(data))
    return path


def a_lost_segment(env: FaultEnv, choice: int) -> str:
    """All files of one in the middle: the next one begins too late."""
    paths = files(env, ".log")
    at = 1 + choice % (len(paths) - 2)
    stem = paths[at].removesuffix(".log").rpartition("/")[2]
    for name in env.listdir(TOPIC):
        if name.startswith(stem):
            env.remove(f"{TOPIC}/{name}")
    return paths[at + 1]


def position_in_an_index(env: FaultEnv, choice: int) -> str:
    paths = files(env, ".index")
    path = paths[choice % len(paths)]
    return flip(env, path, 8 * (choice // len(paths) % (env.size(path) // 8)) + 7)


def timestamp_in_a_time_index(env: FaultEnv, choice: int) -> str:
    paths = files(env, ".timeindex")
    path = paths[choice % len(paths)]
    return flip(env, path, 12 * (choice // len(paths) % (env.size(path) // 12)) + 7)


def producer_in_a_transaction_index(env: FaultEnv, choice: int) -> str:
    paths = files(env, ".txnindex")
    path = paths[choice % len(paths)]
    return flip(env, path, 34 * (choice // len(paths) % (env.size(path) // 34)) + 9)


def length_of_a_transaction_index(env: FaultEnv, choice: int) -> str:
    paths = files(env, ".txnindex")
    path = paths[choice % len(paths)]
    env.write_file(path, env.read_file(path) + bytes(1 + choice % 33))
    return path


def a_byte_of_a_snapshot(env: FaultEnv, choice: int) -> str:
    paths = files(env, ".snapshot")
    path = paths[choice % len(paths)]
    return flip(env, path, choice // len(paths) % env.size(path))


def a_leader_epoch_that_begins_later(env: FaultEnv, _choice: int) -> str:
    path = f"{TOPIC}/leader-epoch-checkpoint"
    text = env.read_file(path).decode().split("\n")
    epoch, offset = text[3].split()
    text[3] = f"{epoch} {int(offset) + 1}"
    env.write_file(path, "\n".join(text).encode())
    return path


DAMAGES = {
    damage.__name__: Damage(damage, frozenset(noticed))
    for damage, noticed in (
        (body_of_a_batch, {Check.CRC}),
        (crc_of_a_batch, {Check.CRC}),
        (magic_of_a_batch, {Check.BATCHES}),
        (a_lost_segment, {Check.OFFSETS}),
        (position_in_an_index, {Check.OFFSET_INDEX}),
        (timestamp_in_a_time_index, {Check.TIME_INDEX}),
        (producer_in_a_transaction_index, {Check.TRANSACTION_INDEX}),
        (length_of_a_transaction_index, {Check.TRANSACTION_INDEX}),
        (a_byte_of_a_snapshot, {Check.SNAPSHOTS}),
        (a_leader_epoch_that_begins_later, {Check.LEADER_EPOCHS}),
    )
}
# The entries of both indexes have the batch's former offset.
DAMAGES[a_batch_back_in_time.__name__] = Damage(
    a_batch_back_in_time,
    frozenset({Check.OFFSETS}),
    frozenset({Check.OFFSET_INDEX, Check.TIME_INDEX}),
)
