"""Hostile dialogues end as they do with Apache Kafka."""

from __future__ import annotations

import random

import pytest

from tests.faults.dialogues import DIALOGUES, Dialogue, End, hold
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.chance import explores, seed_or
from tests.support.raw import RawConnection, api_versions_request, frame, metadata_request

pytestmark = [pytest.mark.faults, pytest.mark.timeout(60)]


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=repr)
def test_the_broker_answers_or_closes(either: BrokerProcess | ApacheKafka, dialogue: Dialogue) -> None:
    hold(dialogue, either.bootstrap)


@explores
def test_random_bytes_are_answered_or_close_the_connection(broker: BrokerProcess) -> None:
    """Random frames, random streams and damaged requests: each connection is closed or answered, the broker lives."""
    dice = random.Random(seed_or(20_26))
    for _ in range(300):
        damage(broker.bootstrap, dice)
    hold(Dialogue("afterwards", metadata_request(), (b"\0\0\0\1",), End.OPEN), broker.bootstrap)


def damage(bootstrap: str, dice: random.Random) -> None:
    """Sends random input on one connection and reads until the broker closes it."""
    with RawConnection(bootstrap) as connection:
        try:
            connection.send(nonsense(dice))
            connection.socket.shutdown(1)
            while connection.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass


def nonsense(dice: random.Random) -> bytes:
    """A damaged request, a frame of noise, or a stream of noise."""
    kind = dice.randrange(3)
    if kind == 0:
        request = bytearray(dice.choice([metadata_request(1, ["a", "b"]), api_versions_request()]))
        for _ in range(dice.randrange(1, 4)):
            request[dice.randrange(4, len(request))] = dice.randrange(256)
        return bytes(request)
    noise = dice.randbytes(dice.randrange(1, 400))
    if kind == 1:
        # A supported key and version lead the noise into the request's parser.
        key = dice.choice([0, 1, 2, 3, 18, 19, 20, 22, 23, 32, 60, 75])
        return frame(key.to_bytes(2, "big") + dice.randrange(14).to_bytes(2, "big") + noise)
    return noise
