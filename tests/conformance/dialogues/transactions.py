"""InitProducerId for producers without a transactional id."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from protocol.api_keys import ApiKey
from protocol.messages.transactions import InitProducerIdRequest
from tests.conformance.dialogues import dialogue
from tests.conformance.speaker import Speaker

FIRST, LAST = 0, 5
PREVIOUS_ID = 3


def init(**fields: Any) -> InitProducerIdRequest:
    fields.setdefault("transaction_timeout_ms", 60_000)
    return InitProducerIdRequest(**fields)


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def an_id_for_everyone(client: Speaker) -> None:
    client.until(init(transactional_id=None), lambda answer: answer.error_code == 0)
    ids = [client.ask(init(transactional_id=None)).producer_id for _ in range(5)]
    client.note([later - earlier for earlier, later in pairwise(ids)])


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def timeouts_do_not_matter(client: Speaker) -> None:
    for timeout_ms in (0, -1, 2**31 - 1):
        client.ask(init(transaction_timeout_ms=timeout_ms))


@dialogue(ApiKey.INIT_PRODUCER_ID, FIRST, LAST)
def a_transactional_id_without_letters(client: Speaker) -> None:
    client.ask(init(transactional_id=""))


@dialogue(ApiKey.INIT_PRODUCER_ID, PREVIOUS_ID, LAST)
def an_id_from_before(client: Speaker) -> None:
    for producer_id, epoch in ((5, 0), (5, -1), (-1, 0), (-2, -2), (2**40, 3)):
        client.ask(init(producer_id=producer_id, producer_epoch=epoch))
