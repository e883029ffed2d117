"""Quotas beside Apache Kafka's classes: random events under one clock have equal throttle times, to the millisecond."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from barnabas.broker.quotas.client_quotas import ClientQuotaManager
from barnabas.broker.quotas.limits import ANY, Entity, Part
from barnabas.broker.quotas.mutation_quotas import MutationQuota
from barnabas.broker.quotas.quota_types import QuotaType
from barnabas.broker.request import KafkaPrincipal
from barnabas.protocol.errors import ApiError
from tests.conformance.java_quotas import JavaQuotas
from tests.support.chance import seeds

pytestmark = pytest.mark.conformance

EVENTS = int(os.environ.get("BARNABAS_QUOTA_EVENTS", "800"))
"""In each list of events."""

USERS = ["alice", "bob b*+~", "ä"]
CLIENT_IDS = ["c", "d/é", ""]
MORE_THAN_ANY = 2.0**40


@pytest.fixture(scope="module")
def java_quotas() -> Iterator[JavaQuotas]:
    java = JavaQuotas()
    yield java
    java.close()


class BothManagers:
    """Kafka's manager and ours, under one clock; the same is done to both, and each result compared."""

    def __init__(self, java: JavaQuotas, quota_type: QuotaType, chance: random.Random) -> None:
        self.chance = chance
        self.now_ms = 1_000_000_000_000
        samples, window_s = chance.choice([1, 2, 3, 11, 20]), chance.choice([1, 1, 2, 5])
        self.ours = ClientQuotaManager(quota_type, samples=samples, window_ms=window_s * 1000)
        self.java = java
        java.renew(quota_type.value, samples, window_s)
        self.java_entities: set[Entity] = set()

    def set_quota(self) -> None:
        def part(names: list[str]) -> Part:
            return self.chance.choice([None, ANY, *((name,) for name in names if name)])

        entity = part(USERS), part(CLIENT_IDS)
        if entity == (None, None):
            return
        is_removal = self.chance.random() < 0.4
        limit = None if is_removal else self.chance.choice([10, 10.5, 1 / 3, 100, 12_345, 1e6])
        if limit is not None and self.ours.type is not QuotaType.CONTROLLER_MUTATION:
            limit += 10
        self.ours.update(entity, limit)
        self.java.set(entity, limit)

    def advance(self) -> None:
        ms = self.chance.choice([0, 1, 7, 100, 999, 1000, 1001, 2500, 10_000, 11_000, 25_000, 200_000])
        self.now_ms += ms
        self.java.advance(ms)

    def client(self) -> tuple[str, str]:
        return self.chance.choice(USERS), self.chance.choice(CLIENT_IDS)

    def record(self) -> None:
        user, client_id = self.client()
        value = self.chance.choice([0, 1, 5.25, 100, 3333, 100_000, self.chance.random() * 1000])
        ours = 0
        if self.ours.is_enabled:
            counter = self.ours.counter(KafkaPrincipal(user), client_id, self.now_ms)
            ours = self.ours.record(counter, value, self.now_ms)
        assert ours == self.java.record(user, client_id, value)
        if ours and self.chance.random() < 0.3:
            counter.rate.record(-value, self.now_ms)
            self.java.unrecord(user, client_id, value)

    def compare_windows(self) -> None:
        user, client_id = self.client()
        ours = MORE_THAN_ANY
        if self.ours.is_enabled:
            counter = self.ours.counter(KafkaPrincipal(user), client_id, self.now_ms)
            ours = self.ours.max_in_window(counter)
        assert min(MORE_THAN_ANY, ours) == min(MORE_THAN_ANY, self.java.max_in_window(user, client_id))

    def change_topics(self) -> None:
        user, client_id = self.client()
        partitions = [self.chance.choice([0, 1, 2, 10, 50, 1000]) for _ in range(self.chance.randint(1, 4))]
        kind = self.chance.choice(["strict", "permissive"])
        allowed, throttle_ms = [True] * len(partitions), 0
        if self.ours.is_enabled:
            counter = self.ours.counter(KafkaPrincipal(user), client_id, self.now_ms)
            quota = MutationQuota(counter, lambda: self.now_ms, is_strict=kind == "strict")
            allowed = [_is_allowed(quota, at, count) for at, count in enumerate(partitions)]
            throttle_ms = quota.throttle_time_ms()
        assert (allowed, throttle_ms) == self.java.change(kind, user, client_id, partitions)


def _is_allowed(quota: MutationQuota, topic: int, partitions: int) -> bool:
    try:
        quota.charge(str(topic), partitions)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("quota_type", [QuotaType.PRODUCE, QuotaType.FETCH, QuotaType.REQUEST])
def test_rates_throttle_as_in_kafka(java_quotas: JavaQuotas, quota_type: QuotaType, seed: int) -> None:
    both = BothManagers(java_quotas, quota_type, random.Random(seed))
    steps = [
        both.set_quota,
        both.advance,
        both.advance,
        both.record,
        both.record,
        both.record,
        both.compare_windows,
    ]
    for _ in range(EVENTS):
        both.chance.choice(steps)()


@pytest.mark.parametrize("seed", seeds(8))
def test_changes_to_topics_are_throttled_as_in_kafka(java_quotas: JavaQuotas, seed: int) -> None:
    both = BothManagers(java_quotas, QuotaType.CONTROLLER_MUTATION, random.Random(seed))
    for _ in range(EVENTS):
        both.chance.choice([both.set_quota, both.advance, both.change_topics, both.change_topics])()
