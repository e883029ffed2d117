"""The clients of the scenarios, against one Barnabas broker: their histories have everything and no anomaly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.broker_process import BrokerProcess
from tests.support.cluster.checker import check
from tests.support.cluster.history import (
    Assigned,
    At,
    FinalRead,
    History,
    OffsetCommitted,
    Outcome,
    Polled,
    Sent,
    TransactionEnded,
)
from tests.support.cluster.load import InGroup, Reading, Sending, Transacting, final_read, load
from tests.support.cluster.waiting import wait_for

pytestmark = pytest.mark.clients

OVERRIDES = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data"), OVERRIDES) as broker:
        yield broker


def topic(broker: BrokerProcess, name: str) -> list[At]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for made in admin.create_topics([NewTopic(name, 2, 1)]).values():
        made.result(20)
    return [At(name, 0), At(name, 1)]


def test_senders_and_readers(broker: BrokerProcess, tmp_path: Path) -> None:
    partitions = topic(broker, "sent")
    history = History()
    with load(
        Sending(history, broker.bootstrap, "all", partitions, padding=50),
        Sending(history, broker.bootstrap, "one", partitions, acks="1"),
        Reading(history, broker.bootstrap, "reader", partitions),
    ):
        wait_for("records are read", lambda: history.count(Polled) > 200)
    final_read(history, broker.bootstrap, partitions)
    assert check(history) == []
    assert history.count(Sent, Outcome.OK) == history.acknowledged == history.count(Sent)
    read = [event for event in history.events if isinstance(event, FinalRead)]
    assert sum(len(event.values) for event in read) == history.acknowledged
    assert {event.at for event in read} == set(partitions)
    history.save(tmp_path / "history")
    assert len((tmp_path / "history").read_text().splitlines()) == len(history)


def test_transactions(broker: BrokerProcess) -> None:
    partitions = topic(broker, "transactional")
    history = History()
    with load(
        Transacting(history, broker.bootstrap, "x", partitions, per_second=100),
        Reading(history, broker.bootstrap, "uncommitted", partitions, is_committed=False),
    ):
        for outcome in (Outcome.OK, Outcome.FAILED):
            wait_for(f"five are {outcome}", lambda o=outcome: history.count(TransactionEnded, o) >= 5)  # type: ignore[misc]
    final_read(history, broker.bootstrap, partitions)
    assert check(history) == []
    aborted = {
        event.transaction
        for event in history.events
        if isinstance(event, TransactionEnded) and event.outcome is Outcome.FAILED
    }
    hidden = {
        event.value for event in history.events if isinstance(event, Sent) and event.transaction in aborted
    }
    final = [event for event in history.events if isinstance(event, FinalRead)]
    shown = {value for event in final for value in event.values.values()}
    assert hidden
    assert not hidden & shown
    assert sum(event.end - event.start for event in final) > len(shown)  # aborted records and markers


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_that_joins_later(broker: BrokerProcess, protocol: str) -> None:
    partitions = topic(broker, f"grouped-{protocol}")
    history = History()
    members = [
        InGroup(
            history, broker.bootstrap, f"{protocol}-{name}", protocol, partitions[0].topic, protocol=protocol
        )
        for name in ("early", "late")
    ]
    with load(Sending(history, broker.bootstrap, protocol, partitions), members[0]):
        wait_for("it commits", lambda: history.count(OffsetCommitted, Outcome.OK) >= 3)
        with load(members[1]):
            wait_for("both have partitions", lambda: len(consumers(history)) == 2)
            wanted = history.count(OffsetCommitted, Outcome.OK) + 3
            wait_for("they commit", lambda: history.count(OffsetCommitted, Outcome.OK) >= wanted)
    final_read(history, broker.bootstrap, partitions)
    assert check(history) == []
    resumed = [event for event in history.events if isinstance(event, Assigned) and event.position > 0]
    assert resumed


def consumers(history: History) -> set[str]:
    return {event.consumer for event in history.events if isinstance(event, Assigned)}
