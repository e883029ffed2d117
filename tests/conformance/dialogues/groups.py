"""FindCoordinator."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.configs import DescribeConfigsRequest
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.metadata import metadata_request
from tests.conformance.dialogues.words import named

FIRST, LAST = 0, 6
MANY_KEYS = 4
TOPIC_RESOURCE, DYNAMIC_TOPIC_CONFIG = 2, 1
GROUP, TRANSACTION, SHARE = 0, 1, 2


def find(client: DialogueClient, *keys: str, key_type: int = GROUP) -> FindCoordinatorRequest:
    if client.version >= MANY_KEYS:
        return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)
    return FindCoordinatorRequest(key=keys[0], key_type=key_type)


def errors(answer: Any) -> list[int]:
    return [found.error_code for found in answer.coordinators] or [answer.error_code]


@dialogue(ApiKey.FIND_COORDINATOR, FIRST, LAST)
def the_coordinator_of_a_group(client: DialogueClient) -> None:
    """Kafka creates __consumer_offsets first, and answers COORDINATOR_NOT_AVAILABLE until it exists."""
    request = find(client, "group")
    client.request_until(request, lambda answer: errors(answer) == [0])
    client.request(request)


@dialogue(ApiKey.FIND_COORDINATOR, 1, LAST)
def the_coordinator_of_a_transaction(client: DialogueClient) -> None:
    request = find(client, "transaction", key_type=TRANSACTION)
    client.request_until(request, lambda answer: errors(answer) == [0])
    client.request(request)


@dialogue(ApiKey.FIND_COORDINATOR, MANY_KEYS, LAST)
def several_keys_and_no_key(client: DialogueClient) -> None:
    request = find(client, "b", "a", "b")
    client.request_until(request, lambda answer: not any(errors(answer)))
    client.request(request)
    client.request(find(client))


@dialogue(ApiKey.FIND_COORDINATOR, FIRST, LAST)
def an_empty_key(client: DialogueClient) -> None:
    request = find(client, "")
    client.request_until(request, lambda answer: errors(answer) != [15])
    client.request(request)


@dialogue(ApiKey.FIND_COORDINATOR, 1, LAST)
def unknown_key_types(client: DialogueClient) -> None:
    for key_type in (3, -1, 127):
        client.request(find(client, "a", key_type=key_type))


@dialogue(ApiKey.FIND_COORDINATOR, 1, 5)
def the_share_key_type_in_old_versions(client: DialogueClient) -> None:
    client.request(find(client, "a", key_type=SHARE))


@dialogue(ApiKey.FIND_COORDINATOR, 6, LAST)
def keys_of_share_partitions(client: DialogueClient) -> None:
    key = f"group:{'A' * 22}:0"
    client.request_until(find(client, key, key_type=SHARE), lambda answer: errors(answer) != [15])
    client.request(find(client, key, key_type=SHARE))
    client.request(find(client, "group", key_type=SHARE))
    client.request(find(client, f"group:{'A' * 22}:x", key_type=SHARE))
    client.request(find(client, "group:x:0", key_type=SHARE))
    client.request(find(client, f"a:b:{'A' * 22}:0", key_type=SHARE))


def own_settings(answer: Any) -> object:
    """The configs that the topic itself sets."""
    return sorted(
        (entry.name, entry.value)
        for entry in answer.results[0].configs
        if entry.config_source == DYNAMIC_TOPIC_CONFIG
    )


@dialogue(ApiKey.FIND_COORDINATOR, 6, LAST)
def configs_of_coordinator_topics(client: DialogueClient) -> None:
    for key_type, key, topic in (
        (GROUP, "a", "__consumer_offsets"),
        (TRANSACTION, "a", "__transaction_state"),
        (SHARE, f"a:{'A' * 22}:0", "__share_group_state"),
    ):
        client.request_until(find(client, key, key_type=key_type), lambda answer: errors(answer) == [0])
        client.request(
            metadata_request(topic),
            12,
            noting=lambda it: (it.topics[0].is_internal, len(it.topics[0].partitions)),
        )
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
        )
        client.request(DescribeConfigsRequest(resources=[resource]), 4, noting=own_settings)


@dialogue(ApiKey.METADATA, 4, 13)
def coordinator_topics_are_created_on_request(client: DialogueClient) -> None:
    for name in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        request = MetadataRequest(topics=named(name), allow_auto_topic_creation=True)
        client.request_until(request, lambda answer: answer.topics[0].error_code == 0)
        client.request(request, noting=lambda it: (it.topics[0].is_internal, len(it.topics[0].partitions)))
