"""FindCoordinator."""

from __future__ import annotations

from typing import Any

from protocol.api_keys import ApiKey
from protocol.messages.groups import FindCoordinatorRequest
from tests.conformance.dialogues import dialogue
from tests.conformance.speaker import Speaker

FIRST, LAST = 0, 6
MANY_KEYS = 4
GROUP, TRANSACTION, SHARE = 0, 1, 2


def find(client: Speaker, *keys: str, key_type: int = GROUP) -> FindCoordinatorRequest:
    if client.version >= MANY_KEYS:
        return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)
    return FindCoordinatorRequest(key=keys[0], key_type=key_type)


def errors(answer: Any) -> list[int]:
    return [found.error_code for found in answer.coordinators] or [answer.error_code]


@dialogue(ApiKey.FIND_COORDINATOR, FIRST, LAST)
def of_a_group(client: Speaker) -> None:
    """Kafka makes its topic for offsets first, and says so until it is there."""
    request = find(client, "group")
    client.until(request, lambda answer: errors(answer) == [0])
    client.ask(request)


@dialogue(ApiKey.FIND_COORDINATOR, 1, LAST)
def of_a_transaction(client: Speaker) -> None:
    request = find(client, "transaction", key_type=TRANSACTION)
    client.until(request, lambda answer: errors(answer) == [0])
    client.ask(request)


@dialogue(ApiKey.FIND_COORDINATOR, MANY_KEYS, LAST)
def of_many_and_of_none(client: Speaker) -> None:
    request = find(client, "b", "a", "b")
    client.until(request, lambda answer: not any(errors(answer)))
    client.ask(request)
    client.ask(find(client))


@dialogue(ApiKey.FIND_COORDINATOR, FIRST, LAST)
def of_nobody(client: Speaker) -> None:
    request = find(client, "")
    client.until(request, lambda answer: errors(answer) != [15])
    client.ask(request)


@dialogue(ApiKey.FIND_COORDINATOR, 1, LAST)
def of_something_else(client: Speaker) -> None:
    for key_type in (3, -1, 127):
        client.ask(find(client, "a", key_type=key_type))


@dialogue(ApiKey.FIND_COORDINATOR, 1, 5)
def of_a_share_group_before_its_time(client: Speaker) -> None:
    client.ask(find(client, "a", key_type=SHARE))
