"""Gaps that a power cut may have left in the logs of a member: who truncates, and who keeps what it has."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.replica.recovered_gaps import truncate_at_gaps
from barnabas.protocol.messages.topic_records import PartitionRecord, TopicRecord
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import FetchIsolation
from tests.broker.cluster_images import topic_id
from tests.broker.logs import batch
from tests.storage.fault_env import FaultEnv, nth
from tests.storage.helpers import small_config

_LOG_END = FetchIsolation.LOG_END
LOGS = "/logs"
THIS, OTHER = 1, 2


def torn(env: FaultEnv) -> LogManager:
    """The logs of a broker after a power cut: of `t-0` the offsets 1 and 2 are gone, and 3 is there."""
    manager = opened(env)
    log = manager.get_or_create_log("t", 0, topic_id("t"))
    log.append_as_leader(batch("0"), 0)
    log.append_as_leader(batch("1", "2"), 0)
    first_size = log.read(0, 1, _LOG_END, min_one_message=True).records.size
    log.roll()
    log.append_as_leader(batch("3"), 0)
    env.kill()
    env.write_file(path := f"{LOGS}/t-0/{0:020d}.log", env.read_file(path)[:first_size])
    return opened(env)


def opened(env: FaultEnv) -> LogManager:
    if not env.exists(LOGS):
        env.mkdir(LOGS)
    manager = LogManager(env, [LOGS], lambda _topic: small_config())
    manager.dirs.lock()
    manager.load_logs()
    return manager


def image(isr: list[int], leader: int, topic: str = "t") -> MetadataImage:
    records = [
        TopicRecord(name=topic, topic_id=topic_id(topic)),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id(topic),
            replicas=[THIS, OTHER],
            isr=isr,
            leader=leader,
            leader_epoch=3,
            partition_epoch=3,
            directories=[],
        ),
    ]
    return replayed(MetadataImage.empty(), records, offset=10, epoch=1)[0]


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


def only_log(manager: LogManager) -> UnifiedLog:
    [log] = manager.all_logs()
    return log


def test_a_follower_truncates_where_the_gap_begins(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    manager = torn(env)
    assert only_log(manager).unproven_gap == 1
    with caplog.at_level(logging.WARNING):
        truncate_at_gaps(manager, image([OTHER], OTHER), THIS)
    assert (only_log(manager).log_end_offset, only_log(manager).unproven_gap) == (1, None)
    assert "t-0: truncated from 4 to 1" in caplog.text
    env.kill()
    assert only_log(opened(env)).log_end_offset == 1, "another start finds nothing behind the gap"


def test_it_does_not_wait_for_a_leader(env: FaultEnv) -> None:
    manager = torn(env)
    truncate_at_gaps(manager, image([OTHER], -1), THIS)
    assert only_log(manager).log_end_offset == 1


@pytest.mark.parametrize(
    ("isr", "leader"), [([THIS], THIS), ([THIS], -1), ([], -1), ([THIS, OTHER], THIS), ([OTHER], THIS)]
)
def test_a_replica_without_others_keeps_what_it_has(env: FaultEnv, isr: list[int], leader: int) -> None:
    manager = torn(env)
    truncate_at_gaps(manager, image(isr, leader), THIS)
    assert (only_log(manager).log_end_offset, only_log(manager).unproven_gap) == (4, None)


def test_a_log_without_metadata_keeps_what_it_has(env: FaultEnv) -> None:
    manager = torn(env)
    truncate_at_gaps(manager, image([OTHER], OTHER, topic="u"), THIS)
    assert only_log(manager).log_end_offset == 4


def test_a_log_without_gaps_stays(env: FaultEnv) -> None:
    manager = opened(env)
    manager.get_or_create_log("t", 0, topic_id("t")).append_as_leader(batch("0"), 0)
    truncate_at_gaps(manager, image([OTHER], OTHER), THIS)
    assert only_log(manager).log_end_offset == 1


def test_a_directory_that_fails_at_it_goes_offline(env: FaultEnv) -> None:
    manager = torn(env)
    env.inject(nth(0))
    truncate_at_gaps(manager, image([OTHER], OTHER), THIS)
    assert list(manager.dirs.offline) == [LOGS]
