"""Quotas of addresses, from the metadata to the rates of the socket server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.network.ip_quotas import IpQuotasUpdate, addresses_of
from barnabas.protocol.messages.topic_records import ClientQuotaRecord
from tests.broker.held_runner import HeldRunner

Changes = list[tuple[Mapping[str, float], float | None]]


def quota(entity_type: str, name: str | None, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    key = "connection_creation_rate" if entity_type == "ip" else "producer_byte_rate"
    entity = ClientQuotaRecord.EntityData(entity_type=entity_type, entity_name=name)
    return ClientQuotaRecord(entity=[entity], key=key, value=value, remove=remove)


def test_rates_follow_the_metadata() -> None:
    changes: Changes = []
    update = IpQuotasUpdate(lambda *change: changes.append(change), HeldRunner())
    update.apply(MetadataImage.empty(), MetadataDelta.everything(MetadataImage.empty()))
    image, delta = replayed(
        MetadataImage.empty(),
        [quota("ip", "192.0.2.1", 5.0), quota("ip", "::1", 6.0), quota("ip", None, 7.0)],
    )
    update.apply(image, delta)
    image, delta = replayed(image, [quota("user", "alice", 1.0)])
    update.apply(image, delta)
    update.apply(*replayed(image, [quota("ip", None, 0, remove=True)]))
    rates = {"192.0.2.1": 5.0, "::1": 6.0}
    assert changes == [(rates, 7.0), (rates, None)]


def test_names_are_resolved_off_the_loop_and_only_the_newest_result_counts() -> None:
    changes: Changes = []
    runner = HeldRunner()
    update = IpQuotasUpdate(lambda *change: changes.append(change), runner)
    image, delta = replayed(MetadataImage.empty(), [quota("ip", "localhost", 5.0)])
    update.apply(image, delta)
    update.apply(*replayed(image, [quota("ip", "localhost", 9.0)]))
    assert runner.held == 2
    runner.release_all()
    ((rates, default),) = changes
    assert rates["127.0.0.1"] == 9.0
    assert default is None


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b"])
def test_an_unknown_name_has_no_effect_and_is_logged(host: str, caplog: pytest.LogCaptureFixture) -> None:
    assert addresses_of(host) == set()
    assert f"the quota of {host} has no effect" in caplog.text


def test_a_bug_in_looking_up_is_not_swallowed() -> None:
    runner = HeldRunner()
    image, delta = replayed(MetadataImage.empty(), [quota("ip", "localhost", 5.0)])
    IpQuotasUpdate(lambda *change: None, runner).apply(image, delta)
    with pytest.raises(OSError, match="bug"):
        runner.fail(OSError("a bug"))
