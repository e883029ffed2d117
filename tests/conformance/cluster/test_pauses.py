"""Row 6: brokers are frozen (SIGSTOP) and go on, as leaders that do not know yet that they are none any more."""

from __future__ import annotations

import time

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import led_in_turn
from tests.support.cluster.history import History
from tests.support.cluster.load import Reading, Sending, Transacting, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.settings import SESSION_S
from tests.support.cluster.waiting import wait_for

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]


def test_a_broker_that_is_frozen_for_less_than_its_session_stays_a_member(rig: ClusterRig) -> None:
    partitions = led_in_turn(rig, fresh("short"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for node in rig.brokers:
            wait_acknowledged(history, 200)
            until = time.monotonic() + SESSION_S / 3
            rig.pause(node)
            assert wait_for("a third of a session is over", lambda until=until: time.monotonic() > until)  # type: ignore[misc]
            rig.resume(node)
            assert node in rig.unfenced()
            wait_acknowledged(history, 200)
    assert_sound(rig, history, partitions)


def test_a_leader_that_was_frozen_until_it_was_fenced_gives_up_its_tail(rig: ClusterRig) -> None:
    """Requests wait in its sockets: what it appends when it goes on is acknowledged to nobody, or truncated."""
    partitions = led_in_turn(rig, fresh("fenced"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Sending(history, rig.bootstrap, fresh("one"), partitions, acks="1"),
        Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for node in rig.brokers:
            wait_acknowledged(history, 200)
            rig.pause(node)
            rig.wait_fenced(node)
            for at in partitions:
                rig.wait_leader(at, not_in={node})
            wait_acknowledged(history, 400)
            rig.resume(node)
            rig.wait_unfenced([node])
            rig.wait_in_sync({partitions[0].topic})
            wait_acknowledged(history, 200)
    assert_sound(rig, history, partitions)
