"""QuotaManagers: quotas from the metadata."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.quotas.limits import ANY
from barnabas.broker.quotas.quota_managers import QuotaManagers, entity_of
from barnabas.broker.request import ConnectionInfo, KafkaPrincipal, RequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.topic_records import ClientQuotaRecord
from tests.broker.quotas.test_quota_callback import FakeCallback

ALICE = KafkaPrincipal("alice")
NOW_MS = 50_000


def managers_of(callback: FakeCallback | None = None, **settings: int) -> QuotaManagers:
    overrides = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    config = BrokerConfig.of(None, overrides=overrides)
    return QuotaManagers(config, lambda: NOW_MS / 1000, lambda: 7.0, callback)


def record(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    parts = [
        ClientQuotaRecord.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in entity.items()
    ]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def test_quotas_follow_the_metadata() -> None:
    managers, changes = managers_of(), list[bool]()
    managers.on_change.append(lambda: changes.append(managers.is_active))
    image = MetadataImage.empty()
    managers.apply(image, MetadataDelta.everything(image))
    assert changes == []
    records = [
        record("producer_byte_rate", 5.0, user="alice"),
        record("consumer_byte_rate", 6.0, user=None, client_id="c"),
        record("request_percentage", 7.0, client_id=None),
        record("controller_mutation_rate", 8.0, user="alice", client_id=None),
        record("connection_creation_rate", 9.0, ip=None),
        record("of_the_future", 10.0, user="alice"),
    ]
    image, delta = replayed(image, records)
    managers.apply(image, delta)
    limits = [manager.counter(ALICE, "c", NOW_MS).limit for manager in managers.each()]
    assert limits == [5.0, 6.0, 7.0, 8.0]
    image, delta = replayed(image, [record("producer_byte_rate", None, user="alice")])
    managers.apply(image, delta)
    assert [manager.is_enabled for manager in managers.each()] == [False, True, True, True]
    removed = [
        record("consumer_byte_rate", None, user=None, client_id="c"),
        record("request_percentage", None, client_id=None),
        record("controller_mutation_rate", None, user="alice", client_id=None),
    ]
    managers.apply(*replayed(image, removed))
    assert changes == [True, False]


@pytest.mark.parametrize(
    ("named", "entity"),
    [
        ((("user", "alice"),), (("alice",), None)),
        ((("client-id", None), ("user", None)), (ANY, ANY)),
        ((("client-id", "c"),), (None, ("c",))),
        ((("ip", "192.0.2.1"),), None),
    ],
)
def test_entities(named: tuple[tuple[str, str | None], ...], entity: object) -> None:
    assert entity_of(named) == entity


def test_windows_come_from_the_configuration() -> None:
    managers = managers_of(
        quota_window_num=3,
        quota_window_size_seconds=2,
        controller_quota_window_num=5,
        controller_quota_window_size_seconds=4,
    )
    assert [(each.samples, each.window_ms) for each in managers.each()] == [(3, 2000)] * 3 + [(5, 4000)]


def test_a_meter_is_of_the_principal_of_now() -> None:
    managers = managers_of()
    image, delta = replayed(MetadataImage.empty(), [record("producer_byte_rate", 5.0, user="alice")])
    managers.apply(image, delta)
    info = ConnectionInfo(
        connection_id=1, listener_name="L", client_host="", client_port=0, local_host="", local_port=0
    )
    context = RequestContext(info, ApiKey.PRODUCE, 9)
    assert not managers.meter(context, 10, 0.0).is_limited
    info.principal = ALICE
    meter = managers.meter(context, 10, 0.0)
    assert meter.is_limited
    assert meter.now() == 7.0


def test_throttle_times_are_counted_by_api() -> None:
    managers = managers_of()
    managers.throttled("PRODUCE", 20)
    managers.throttled("PRODUCE", 30)
    assert list(managers.throttle_times["PRODUCE"].values()) == [20.0, 30.0]
    assert managers.exempt_percent() == 0.0
    managers.close()


def test_a_callback_decides_instead_of_the_metadata() -> None:
    callback = FakeCallback({"team": 3.0})
    managers = managers_of(callback)
    assert managers.is_active
    image, delta = replayed(MetadataImage.empty(), [record("producer_byte_rate", 5.0, user="alice")])
    managers.apply(image, delta)
    assert callback.calls[-2:] == [("update", "Produce", {"user": "alice"}, 5.0), ("cluster", image)]
    counter = managers.fetch.counter(ALICE, "c", NOW_MS)
    assert counter.limit == 3.0
    managers.apply(*replayed(image, [record("producer_byte_rate", None, user="alice")]))
    assert callback.calls[-2] == ("remove", "Produce", {"user": "alice"})
    assert managers.fetch.counter(ALICE, "c", NOW_MS).limit == 3.0
    callback.limits["team"] = 4.0
    managers.apply(*replayed(image, []))
    assert managers.fetch.counter(ALICE, "c", NOW_MS).limit == 3.0
    callback.metadata_matter = True
    managers.apply(*replayed(image, []))
    assert managers.fetch.counter(ALICE, "c", NOW_MS).limit == 4.0
    assert managers.is_active
    managers.close()
    assert callback.calls[-1] == ("close",)
