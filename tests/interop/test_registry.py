"""What a registry needs that keeps its state in a compacted topic, through crashes of the broker and compaction."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import InconsistentGroupProtocolError, KafkaError

from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.conftest import OVERRIDES, own_broker, wait_for_leaders
from tests.interop.reading import read_all
from tests.interop.registry import NotPrimaryError, Registry
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

LIMIT_S = 60.0
ANSWER_LIMIT_S = 3.0
LONG_MS = 20_000
"""A session timeout that outlasts a restart of the broker."""
SHORT_MS = 1000
TOPIC = "_registry"
GROUP = "registries"
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "0",
}
TICK = "tick"
"""A key that is written only to roll the segment with the records before it."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ApacheKafka | BrokerProcess]:
    """A broker that compacts often; it must stop cleanly at the end."""
    broker = own_broker(tmp_path, OVERRIDES | {"log.cleaner.backoff.ms": "200"})
    broker.start()
    try:
        yield broker
        assert broker.stop() == broker.clean_status
    finally:
        broker.kill()


class RegistryHarness:
    """The registries of one broker, and the acknowledged writes."""

    def __init__(self, broker: ApacheKafka | BrokerProcess) -> None:
        self.broker = broker
        self.registries: list[Registry] = []
        self.expected: dict[str, str] = {}

    async def open(self, name: str, session_ms: int = LONG_MS) -> Registry:
        """Starts another registry, which has read the topic."""
        registry = Registry(self.broker.bootstrap, TOPIC, GROUP, name, session_ms)
        await within(registry.__aenter__())
        self.registries.append(registry)
        return registry

    async def vanish(self, registry: Registry) -> None:
        """Ends a registry as a kill does."""
        self.registries.remove(registry)
        await registry.vanish()

    async def put(self, key: str, value: str | None) -> None:
        """Writes by the primary, with retries until the write is acknowledged."""
        while True:
            if await self._put_once(key, value):
                break
            await asyncio.sleep(0.02)
        self.expected.pop(key, None)
        if value is not None:
            self.expected[key] = value

    async def _put_once(self, key: str, value: str | None) -> bool:
        for registry in self.registries:
            try:
                await asyncio.wait_for(registry.write(key, value), ANSWER_LIMIT_S)
            except (NotPrimaryError, KafkaError, TimeoutError):
                continue
            else:
                return True
        return False

    async def versions(self, subjects: int, versions: int, era: str) -> None:
        """Writes `versions` versions of each subject in turn, then deletes every fifth subject."""
        for number in range(subjects * versions):
            await self.put(f"subject-{number % subjects}", f"{era}, version {number // subjects}")
        for number in range(0, subjects, 5):
            await self.put(f"subject-{number}", None)

    async def crash(self) -> None:
        """Kills the broker (kill -9) and starts it again."""
        await asyncio.to_thread(self.broker.kill)
        await asyncio.to_thread(self.broker.start)

    async def await_agreement(self, primary: str) -> None:
        """Waits until all registries know the primary and have all acknowledged writes."""
        for registry in self.registries:
            await within(registry.election.wait_for(primary))
            await within(registry.catch_up())
            assert registry.state == self.expected, registry.name

    async def close(self) -> None:
        """Closes all registries."""
        for registry in list(self.registries):
            await self.vanish(registry)


async def within(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(coroutine, LIMIT_S)


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=COMPACTED)])[TOPIC].result(LIMIT_S)
    wait_for_leaders(admin, TOPIC, 1)


async def crash_while_writing(harness: RegistryHarness) -> None:
    """Keeps writing while the broker is killed and restarted."""
    await within(harness.versions(20, 5, "second"))
    crash = asyncio.create_task(harness.crash())
    for number in itertools.count():
        await within(harness.put(f"subject-{number % 20}", f"crash, version {number}"))
        if crash.done():
            break
    await crash


async def compact(harness: RegistryHarness) -> None:
    """Writes until compaction leaves one record of each key."""
    while True:
        await within(harness.put(TICK, "tock"))
        records = await asyncio.to_thread(read_all, harness.broker.bootstrap, TOPIC)
        found = Counter(record.key() for record in records)
        found.pop(TICK.encode())
        if max(found.values()) == 1:
            return
        await asyncio.sleep(0.25)


async def scenario(broker: ApacheKafka | BrokerProcess) -> None:
    harness = RegistryHarness(broker)
    try:
        first = await harness.open("m")
        await within(harness.versions(10, 3, "first"))
        await harness.open("n")
        await harness.await_agreement("m")
        with pytest.raises(InconsistentGroupProtocolError):
            await first.election.ask(first.election.join_request("consumer"))

        generation = first.election.generation
        await crash_while_writing(harness)
        await harness.await_agreement("m")
        assert first.election.generation == generation, "a generation outlives the broker process"

        better = await harness.open("a", SHORT_MS)
        await harness.await_agreement("a")
        await harness.vanish(better)
        await within(harness.versions(30, 2, "third"))
        await harness.await_agreement("m")
        await within(compact(harness))
        await harness.crash()
        await harness.open("o")
        await harness.await_agreement("m")
    finally:
        await harness.close()


def test_the_registry_keeps_its_state_through_crashes_compaction_and_elections(
    broker: ApacheKafka | BrokerProcess,
) -> None:
    create_topic(broker.bootstrap)
    asyncio.run(scenario(broker))
