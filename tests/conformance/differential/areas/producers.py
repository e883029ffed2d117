"""Producers, for logs and transactions: ids, epochs, and takeovers."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from barnabas.protocol.schema import Message
from tests.conformance.differential.steps import Step
from tests.conformance.differential.world import Producer, World

TIMEOUT_MS: Final = 600_000
"""Longer than any sequence takes, so that no transaction times out."""


def init_producer_id(world: World) -> Message:
    """A producer id, without a transactional id, with a new one, or for a takeover or an epoch bump."""
    if world.chance(0.3):
        transactional_id: str | None = world.mostly(None, [""], 0.1)
    else:
        transactional_id = world.transactional_id()
    producer_id, epoch = -1, -1
    if world.chance(0.15):
        known = world.producer()
        producer_id, epoch = known.producer_id, world.epoch_of(known)
        transactional_id = world.mostly(known.transactional_id, [transactional_id], 0.2)
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=world.mostly(TIMEOUT_MS, [0, -1, 900_001, 2**31 - 1], 0.06),
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def learn(world: World, step: Step, answer: Any) -> None:
    """Learns producer ids and epochs; old ones are kept as zombies."""
    request = step.request
    if isinstance(request, InitProducerIdRequest):
        if answer["error_code"] == 0:
            _learn_producer(world, request.transactional_id, answer)
    elif isinstance(request, EndTxnRequest) and answer["error_code"] == 0 and answer["producer_id"] >= 0:
        _learn_producer(world, request.transactional_id, answer)


def _learn_producer(world: World, transactional_id: str | None, answer: Any) -> None:
    known = Producer(transactional_id, answer["producer_id"], answer["producer_epoch"])
    for other in world.producers:
        if (other.producer_id, other.epoch) == (known.producer_id, known.epoch):
            return
    world.producers.append(known)
