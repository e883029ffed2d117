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
"""A session that is not over when a broker comes back."""
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
"""A key of no meaning, written so that the segment with all that was written before is closed."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ApacheKafka | BrokerProcess]:
    """Whose compaction is never idle for long; it must stop cleanly in the end."""
    broker = own_broker(tmp_path, OVERRIDES | {"log.cleaner.backoff.ms": "200"})
    broker.start()
    try:
        yield broker
        assert broker.stop() == broker.clean_status
    finally:
        broker.kill()


class House:
    """The registries of one broker, and what was answered by them."""

    def __init__(self, broker: ApacheKafka | BrokerProcess) -> None:
        self.broker = broker
        self.registries: list[Registry] = []
        self.expected: dict[str, str] = {}

    async def open(self, name: str, session_ms: int = LONG_MS) -> Registry:
        """One more, that knows what is there."""
        registry = Registry(self.broker.bootstrap, TOPIC, GROUP, name, session_ms)
        await within(registry.__aenter__())
        self.registries.append(registry)
        return registry

    async def vanish(self, registry: Registry) -> None:
        """One less, without a word."""
        self.registries.remove(registry)
        await registry.vanish()

    async def put(self, key: str, value: str | None) -> None:
        """Asks whoever is the primary, again and again until it is answered."""
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
        """Of each subject so many in turn, and each fifth subject is deleted."""
        for number in range(subjects * versions):
            await self.put(f"subject-{number % subjects}", f"{era}, version {number // subjects}")
        for number in range(0, subjects, 5):
            await self.put(f"subject-{number}", None)

    async def crash(self) -> None:
        """kill -9, and up again."""
        await asyncio.to_thread(self.broker.kill)
        await asyncio.to_thread(self.broker.start)

    async def agree(self, primary: str) -> None:
        """All that are there know who is the primary, and know what was answered."""
        for registry in self.registries:
            await within(registry.election.wait_for(primary))
            await within(registry.catch_up())
            assert registry.state == self.expected, registry.name

    async def close(self) -> None:
        """All of them."""
        for registry in list(self.registries):
            await self.vanish(registry)


async def within(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(coroutine, LIMIT_S)


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=COMPACTED)])[TOPIC].result(LIMIT_S)
    wait_for_leaders(admin, TOPIC, 1)


async def crash_while_writing(house: House) -> None:
    """Whoever writes does not stop asking."""
    await within(house.versions(20, 5, "second"))
    crash = asyncio.create_task(house.crash())
    for number in itertools.count():
        await within(house.put(f"subject-{number % 20}", f"crash, version {number}"))
        if crash.done():
            break
    await crash


async def compact(house: House) -> None:
    """Writes until there is one record of each key."""
    while True:
        await within(house.put(TICK, "tock"))
        records = await asyncio.to_thread(read_all, house.broker.bootstrap, TOPIC)
        found = Counter(record.key() for record in records)
        found.pop(TICK.encode())
        if max(found.values()) == 1:
            return
        await asyncio.sleep(0.25)


async def live(broker: ApacheKafka | BrokerProcess) -> None:
    house = House(broker)
    try:
        first = await house.open("m")
        await within(house.versions(10, 3, "first"))
        await house.open("n")
        await house.agree("m")
        with pytest.raises(InconsistentGroupProtocolError):
            await first.election.ask(first.election.join_request("consumer"))

        generation = first.election.generation
        await crash_while_writing(house)
        await house.agree("m")
        assert first.election.generation == generation, "an election outlives the broker"

        better = await house.open("a", SHORT_MS)
        await house.agree("a")
        await house.vanish(better)
        await within(house.versions(30, 2, "third"))
        await house.agree("m")
        await within(compact(house))
        await house.crash()
        await house.open("o")
        await house.agree("m")
    finally:
        await house.close()


def test_its_state_outlives_crashes_compaction_and_primaries(broker: ApacheKafka | BrokerProcess) -> None:
    create_topic(broker.bootstrap)
    asyncio.run(live(broker))
