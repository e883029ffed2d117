"""client.quota.callback.class: the hook, and what refuses the start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.quotas import quota_callback
from barnabas.broker.quotas.client_quotas import ClientQuotaManager
from barnabas.broker.quotas.limits import ANY
from barnabas.broker.quotas.quota_callback import CallbackLimits, load_callback
from barnabas.broker.quotas.quota_types import QuotaType
from barnabas.broker.request import KafkaPrincipal
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from tests.support.examples import importable, indented_after

ALICE, BOB = KafkaPrincipal("alice"), KafkaPrincipal("bob")


class FakeCallback:
    """Counts all users together, as one team."""

    def __init__(self, limits: dict[str, float] | None = None) -> None:
        self.limits = limits if limits is not None else {}
        self.calls: list[tuple[Any, ...]] = []
        self.reset = False
        self.metadata_matter = False

    def configure(self, configs: Mapping[str, str]) -> None:
        self.calls.append(("configure", dict(configs)))

    def quota_metric_tags(
        self, quota_type: str, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        return {"team": "team", "user": principal.name[:0], "client-id": client_id}

    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        return self.limits.get(metric_tags["team"])

    def update_quota(self, quota_type: str, entity: Mapping[str, str | None], new_value: float) -> None:
        self.calls.append(("update", quota_type, entity, new_value))

    def remove_quota(self, quota_type: str, entity: Mapping[str, str | None]) -> None:
        self.calls.append(("remove", quota_type, entity))

    def quota_reset_required(self, quota_type: str) -> bool:
        reset, self.reset = self.reset, False
        return reset

    def update_cluster_metadata(self, cluster: Any) -> bool:
        self.calls.append(("cluster", cluster))
        return self.metadata_matter

    def close(self) -> None:
        self.calls.append(("close",))


class Broken(FakeCallback):
    def __init__(self) -> None:
        raise RuntimeError("out of order")


class Incomplete:
    def configure(self, configs: Mapping[str, str]) -> None:
        pass


HERE = f"python:{__name__}"


def config_of(named: str) -> BrokerConfig:
    overrides = [f"client.quota.callback.class={named}", "node.id=5", "ssl.key.password=secret"]
    return BrokerConfig.of(None, overrides=overrides)


def test_without_a_class_there_is_no_callback() -> None:
    assert load_callback(BrokerConfig.of(None, overrides=[])) is None


def test_a_class_is_loaded_and_configured_without_secrets() -> None:
    callback = load_callback(config_of(f"{HERE}:FakeCallback"))
    assert isinstance(callback, FakeCallback)
    ((_, configs),) = callback.calls
    assert configs["node.id"] == "5"
    assert "secret" not in configs.values()


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("org.example.Quotas", "it is not of the form"),
        ("python:module", "it is not of the form"),
        ("python:no.such.module:Quotas", "No module named 'no'"),
        (f"{HERE}:Nothing", "has no class Nothing"),
        (f"{HERE}:Broken", "RuntimeError: out of order"),
        (f"{HERE}:Incomplete", "has no method quota_metric_tags, quota_limit,"),
    ],
)
def test_a_class_that_is_not_understood_refuses_the_start(named: str, why: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        load_callback(config_of(named))
    text = str(refused.value)
    assert text.startswith("client.quota.callback.class")
    assert named in text
    assert "python:module:Class" in text
    assert why in text


def test_clients_with_the_same_tags_share_a_counter() -> None:
    callback = FakeCallback({"team": 100.0})
    limits = CallbackLimits(callback, QuotaType.PRODUCE)
    manager = ClientQuotaManager(QuotaType.PRODUCE, samples=11, window_ms=1000, limits=limits)
    assert manager.is_enabled
    counter = manager.counter(ALICE, "c", 0)
    assert manager.counter(BOB, "c", 0) is counter
    assert manager.record(counter, 1100, 0) == 1000
    callback.limits["team"] = 110.0
    assert manager.record(manager.counter(ALICE, "c", 0), 0, 0) == 1000
    callback.reset = True
    assert manager.record(manager.counter(ALICE, "c", 0), 0, 0) == 0
    assert [labels for labels, _ in manager.latest(5)] == [("", "c")]


def test_quotas_of_the_metadata_are_passed_on_once() -> None:
    callback = FakeCallback()
    limits = CallbackLimits(callback, QuotaType.FETCH)
    limits.update((ANY, ("c",)), 5.0)
    limits.update((ANY, ("c",)), 5.0)
    limits.update((None, ANY), None)
    limits.update((ANY, ("c",)), None)
    assert callback.calls == [
        ("update", "Fetch", {"user": None, "client-id": "c"}, 5.0),
        ("remove", "Fetch", {"user": None, "client-id": "c"}),
    ]


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    documentation = quota_callback.__doc__
    assert documentation is not None
    code = indented_after(documentation, "As a complete example, the module `company_quotas`")
    key, _, named = indented_after(documentation, "and in server.properties").strip().partition("=")
    assert key == "client.quota.callback.class"
    with importable(code, "company_quotas", tmp_path):
        callback = load_callback(config_of(named))
        assert callback is not None
        tags = callback.quota_metric_tags("Produce", KafkaPrincipal("payments-7"), "c")
        assert tags == {"user": "payments"}
        assert callback.quota_limit("Produce", tags) == 10_000_000
        assert callback.quota_limit("Fetch", tags) is None
        callback.update_quota("Fetch", {}, 1.0)
        callback.remove_quota("Fetch", {})
        assert not callback.quota_reset_required("Fetch")
        assert not callback.update_cluster_metadata(None)
        callback.close()
