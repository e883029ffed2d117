from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.admin.calls.reassignments import Reassignment
from barnabas.cli.admin.errors import BadFileError
from barnabas.cli.admin.names import (
    ResourceType,
)
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.cli.admin.reassignment import Replica, no_throttles, plan_text, read_plan, spread, throttles


def test_plans_are_parsed(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]},'
        ' {"topic": "t", "partition": 1, "replicas": [2]}]}'
    )
    plan = read_plan(file, is_complete=True)
    t_0, t_1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert plan.replicas == {t_0: [1, 2], t_1: [2]}
    assert plan.log_dirs == {Replica(2, t_0): "/d"}
    assert json.loads(plan_text(plan.replicas, plan.log_dirs))["partitions"][0]["log_dirs"] == ["any", "/d"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('"replicas": [1], "log_dirs": []', "Size of replicas list"),
        ('"replicas": []', "cannot be empty"),
        ('"replicas": [1, 1]', "duplicate entries"),
        ('"replicas": ["1"]', "a list is expected"),
    ],
)
def test_invalid_plans_are_rejected(tmp_path: Path, entry: str, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, ' + entry + "}]}")
    with pytest.raises(BadFileError, match=said):
        read_plan(file, is_complete=True)


def test_generated_plans_use_the_brokers_in_turn() -> None:
    current = {TopicPartition("t", number): [1, 2] for number in range(6)}
    proposed = spread(current, [5, 6, 7], draw=lambda _: 0)
    assert list(proposed.values()) == [[5, 6], [6, 7], [7, 5], [5, 7], [6, 5], [7, 6]]
    with pytest.raises(ValueError, match="has 2 replicas, and there are only 1 brokers"):
        spread(current, [5])


def test_throttles_name_source_and_target_replicas() -> None:
    t_0, t_1 = TopicPartition("t", 0), TopicPartition("t", 1)
    moving = {t_1: Reassignment([1, 2], [2], [])}
    changes = throttles({t_0: [1], t_1: [1, 2]}, {t_0: [2], t_1: [1]}, moving, 1000)
    assert changes[ResourceType.TOPIC, "t"] == {
        "leader.replication.throttled.replicas": "0:1,1:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    rates = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}
    assert changes[ResourceType.BROKER, "1"] == changes[ResourceType.BROKER, "2"] == rates
    taken_back = no_throttles({1}, {"t"})
    assert set(taken_back) == {(ResourceType.BROKER, "1"), (ResourceType.TOPIC, "t")}
    assert not any(value for keys in taken_back.values() for value in keys.values())
