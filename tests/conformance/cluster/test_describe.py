"""`barnabas cluster describe` of a whole cluster, and of one in which a broker is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas.cli.main import main
from tests.conformance.cluster.outcomes import fresh
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.settings import rack_of

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(300)]


def described(rig: ClusterRig) -> list[dict[str, Any]]:
    words = ["cluster", "--json", "describe", "--bootstrap-server", rig.bootstrap]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_broker_that_is_gone_is_fenced_and_out_of_sync(rig: ClusterRig) -> None:
    """A JVM broker of a release before 4.0 does not name the fenced ones."""
    fenced, state = ((0, 1), "fenced") if rig.release >= (4, 0) else ((None, None), "absent")
    first, second, *_ = rig.brokers
    topic = fresh("described")
    (at,) = rig.create_topic(topic, assignment={0: [first, second]})
    summary, *brokers = described(rig)
    assert summary["clusterId"] == rig.cluster_id
    assert (summary["brokers"], summary["fencedBrokers"]) == (len(rig.brokers), fenced[0])
    assert (summary["underReplicatedPartitions"], summary["leaderlessPartitions"]) == (0, 0)
    assert {each["id"]: each["rack"] for each in brokers} == {node: rack_of(node) for node in rig.brokers}
    rig.kill(second)
    rig.wait_fenced(second)
    rig.wait_isr(at, {first})
    summary, *rows = described(rig)
    assert summary["fencedBrokers"] == fenced[1]
    states = {each["id"]: each["state"] for each in rows if each["type"] == "broker"}
    assert states == {node: state if node == second else "unfenced" for node in rig.brokers}
    (behind,) = [each for each in rows if each["type"] == "underReplicated" and each["topic"] == topic]
    assert (behind["leader"], behind["isr"], behind["outOfSync"]) == (first, [first], [second])
