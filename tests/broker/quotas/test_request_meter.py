"""RequestMeter: what is charged, when, and for how long a client is throttled."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from barnabas.broker.quotas.client_quotas import ClientQuotaManager
from barnabas.broker.quotas.limits import ANY
from barnabas.broker.quotas.quota_types import QuotaType
from barnabas.broker.quotas.rate import Rate
from barnabas.broker.quotas.request_meter import MAX_BYTES, RequestMeter
from barnabas.broker.request import KafkaPrincipal
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError

ALICE = KafkaPrincipal("alice")


class ManualManagers:
    """The four managers, without quotas at first, under clocks that the test sets."""

    def __init__(self, **quotas: float) -> None:
        self.ms, self.seconds = 1_000_000, 0.0
        self.produce, self.fetch, self.request, self.mutation = (
            ClientQuotaManager(quota_type, samples=11, window_ms=1000) for quota_type in QuotaType
        )
        self.exempt = Rate(11, 1000)
        for name, limit in quotas.items():
            getattr(self, name).update((None, ANY), limit)

    def now_ms(self) -> int:
        return self.ms

    def request_now(self) -> float:
        return self.seconds

    def meter(self, request_bytes: int = 0, handled_s: float | None = 0.0) -> RequestMeter:
        meter = RequestMeter(self, ALICE, "c", request_bytes, self.seconds)
        meter.handled_s = handled_s
        return meter

    def throttled_now(self) -> list[int]:
        return [each.throttled_now for each in (self.produce, self.fetch, self.request, self.mutation)]


def test_without_quotas_nothing_is_counted() -> None:
    managers = ManualManagers()
    meter = managers.meter(10**9, 10**9)
    assert not meter.is_limited
    assert meter.fetch_limit_bytes() == MAX_BYTES
    assert meter.fetched(10**9) == 0
    assert meter.mutation_charge(is_strict=True) is None
    assert managers.meter(10**9, 10**9).settle(ApiKey.PRODUCE) == 0
    meter.used_network(10**9)
    assert [len(each) for each in (managers.produce, managers.fetch, managers.request)] == [0, 0, 0]


def test_a_quota_of_any_type_limits_a_client() -> None:
    for name in ("produce", "fetch", "request", "mutation"):
        assert ManualManagers(**{name: 5.0}).meter().is_limited
    managers = ManualManagers()
    managers.produce.update((None, ("another",)), 5.0)
    assert not managers.meter().is_limited


def test_a_request_is_charged_once() -> None:
    managers = ManualManagers(produce=10.0)
    meter = managers.meter(110)
    assert meter.settle(ApiKey.PRODUCE) == 1000
    assert meter.settle(ApiKey.PRODUCE) == 1000
    assert managers.meter(110).settle(ApiKey.METADATA) == 0
    assert managers.produce.counter(ALICE, "c", managers.ms).throttled.average_ms(managers.ms) == 1000.0  # type: ignore[union-attr]


def test_the_time_in_the_handler_is_charged() -> None:
    managers = ManualManagers(request=50.0)
    assert managers.meter(handled_s=5.0).settle(ApiKey.METADATA) == 0
    assert managers.meter(handled_s=1.0).settle(ApiKey.METADATA) == 2000
    assert managers.throttled_now() == [0, 0, 1, 0]


def test_while_the_handler_runs_the_clock_says_what_it_took() -> None:
    managers = ManualManagers(request=50.0)
    meter = managers.meter(handled_s=None)
    managers.seconds += 6
    assert meter.fetched(5) == 2000
    assert meter.now() == 6.0


def test_sending_is_charged_without_throttling() -> None:
    managers = ManualManagers(request=50.0)
    meter = managers.meter()
    assert meter.settle(ApiKey.METADATA) == 0
    meter.used_network(6.0)
    assert managers.meter().settle(ApiKey.METADATA) == 2000


def test_the_time_of_a_request_without_a_response_is_counted_apart() -> None:
    managers = ManualManagers(request=50.0)
    meter = managers.meter(handled_s=6.0)
    assert meter.settle(ApiKey.PRODUCE, without_response=True) == 0
    meter.used_network(4.0)
    assert managers.exempt.measure(managers.ms) == 100.0
    assert managers.meter().settle(ApiKey.METADATA) == 0


def test_a_handler_may_exempt_its_request() -> None:
    managers = ManualManagers(request=50.0)
    meter = managers.meter(handled_s=6.0)
    meter.exempt()
    assert meter.settle(ApiKey.FETCH) == 0
    assert managers.exempt.measure(managers.ms) == 60.0


def test_what_is_not_sent_is_taken_back() -> None:
    managers = ManualManagers(fetch=100.0)
    assert managers.meter().fetch_limit_bytes() == 1000
    assert managers.meter().fetched(1000) == 0
    meter = managers.meter()
    assert meter.fetched(500) == 5000
    assert meter.settle(ApiKey.FETCH) == 5000
    assert managers.throttled_now() == [0, 1, 0, 0]
    assert managers.meter().fetched(0) == 0
    managers.request.update((None, ANY), 1.0)
    managers.ms += 60_000
    assert managers.meter(handled_s=60.0).fetched(900) == 5_990_000  # for its time
    assert managers.meter(handled_s=0.0).fetched(101) == 5_990_000
    assert managers.fetch.counter(ALICE, "c", managers.ms).rate.measure(managers.ms) == 0


@pytest.mark.parametrize(("handled_s", "muted_by"), [(0.5, [1, 0, 0, 0]), (1.0, [0, 0, 1, 0])])
def test_the_longest_time_counts_and_mutes(handled_s: float, muted_by: list[int]) -> None:
    managers = ManualManagers(produce=10.0, request=5.0)
    meter = managers.meter(200, handled_s)
    assert meter.settle(ApiKey.PRODUCE) == 10_000
    assert managers.throttled_now() == muted_by
    meter.unmuted()
    meter.unmuted()
    assert managers.throttled_now() == [0, 0, 0, 0]


def changes(meter: RequestMeter, *partitions: int, **options: bool) -> Iterable[bool]:
    charge = meter.mutation_charge(
        is_strict=options.get("is_strict", True), throttles=options.get("throttles", True)
    )
    assert charge is not None
    for at, count in enumerate(partitions):
        try:
            charge(str(at), count)
        except ApiError:
            yield False
        else:
            yield True


def test_changes_to_topics_throttle() -> None:
    managers = ManualManagers(mutation=1.0)
    meter = managers.meter()
    assert list(changes(meter, 12, 1)) == [True, False]
    managers.ms += 300
    assert meter.settle(ApiKey.CREATE_TOPICS) == 700
    assert managers.throttled_now() == [0, 0, 0, 1]
    permissive = managers.meter()
    assert list(changes(permissive, 1, 1, is_strict=False)) == [True, True]
    assert permissive.settle(ApiKey.CREATE_TOPICS) == 2700


def test_creation_on_demand_does_not_throttle() -> None:
    managers = ManualManagers(mutation=1.0)
    meter = managers.meter()
    assert list(changes(meter, 12, 1, throttles=False)) == [True, False]
    assert meter.settle(ApiKey.METADATA) == 0


def test_the_controllers_throttle_time_counts_where_it_is_longer() -> None:
    managers = ManualManagers(request=50.0)
    assert managers.meter().settle_forwarded(700) == 700
    assert managers.meter(handled_s=6.0).settle_forwarded(700) == 2000
