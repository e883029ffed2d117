"""Random requests, whole and damaged: each is answered or closes its connection, and the broker survives."""

from __future__ import annotations

import random
import struct

import pytest

from barnabas.protocol.api_keys import ApiKey, request_header_version, request_type
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.headers import RequestHeader
from tests.protocol.samples import random_message
from tests.support.broker_process import BrokerProcess
from tests.support.chance import explores, seed_or
from tests.support.raw import PRODUCE, RawConnection, api_versions_request, frame, metadata_request

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

REQUESTS = 1500


def served(bootstrap: str) -> list[tuple[int, int]]:
    """Every API key and version that the broker reports as supported."""
    with RawConnection(bootstrap) as connection:
        connection.send(api_versions_request())
        answer = connection.read_frame()
    (count,) = struct.unpack_from(">i", answer, 6)
    ranges = [struct.unpack_from(">hhh", answer, 10 + 6 * number) for number in range(count)]
    return [(key, version) for key, low, high in ranges for version in range(low, high + 1)]


def request(dice: random.Random, key: int, version: int) -> bytes:
    """Encodes a random request of that kind; half of them have some bytes changed."""
    message = random_message(dice, request_type(ApiKey(key)), version)
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=1, client_id="random"
    )
    payload = bytearray(
        encode(header, request_header_version(ApiKey(key), version)) + encode(message, version)
    )
    if dice.random() < 0.5:
        for _ in range(dice.randrange(1, 4)):
            payload[dice.randrange(8, len(payload))] = dice.randrange(256)
    return frame(bytes(payload))


@explores
def test_random_requests_are_answered_or_close_the_connection(broker: BrokerProcess) -> None:
    """The broker fixture checks that no exception was logged."""
    dice = random.Random(seed_or(31))
    kinds = [(key, version) for key, version in served(broker.bootstrap) if key != PRODUCE or version >= 3]
    answered = 0
    connection = RawConnection(broker.bootstrap, timeout_s=1)
    for _ in range(REQUESTS):
        # The Metadata request behind it is answered even where the request itself has no response (acks=0).
        try:
            connection.send(request(dice, *dice.choice(kinds)) + metadata_request(2))
            while connection.read_frame()[:4] != b"\0\0\0\2":
                answered += 1
        except (EOFError, ConnectionError, TimeoutError):
            # Closed, or a fetch with a max wait of days.
            connection.close()
            connection = RawConnection(broker.bootstrap, timeout_s=1)
    connection.close()
    assert answered > REQUESTS // 3
