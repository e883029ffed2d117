"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

FIRST, LAST = 0, 1
EXACT, DEFAULT, SPECIFIED = 0, 1, 2

Parts = Sequence[tuple[str, str | None]]
Ops = Mapping[str, float | None] | Sequence[tuple[str, float | None]]


def alter(*entries: tuple[Parts, Ops], validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[
                    AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in parts
                ],
                ops=[
                    AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in (ops.items() if isinstance(ops, Mapping) else ops)
                ],
            )
            for parts, ops in entries
        ],
        validate_only=validate_only,
    )


def describe(
    *components: tuple[str, int] | tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(
                entity_type=component[0],
                match_type=component[1],
                match=component[2] if len(component) > 2 else None,
            )
            for component in components
        ],
        strict=strict,
    )


def altered(answer: AlterClientQuotasResponse) -> object:
    """The results, sorted: Kafka returns entities in hash order."""
    return sorted(
        (parts_of(entry), int(entry.error_code), entry.error_message is None) for entry in answer.entries
    )


def parts_of(entry: Any) -> list[tuple[str, str]]:
    return sorted((part.entity_type, part.entity_name or "<default>") for part in entry.entity)


def of_this_dialogue(client: DialogueClient) -> Any:
    """A function that notes only the entities of this dialogue."""

    def noting(answer: DescribeClientQuotasResponse) -> object:
        if answer.entries is None:
            return answer.error_code
        ours = [
            (parts_of(entry), sorted((value.key, value.value) for value in entry.values))
            for entry in answer.entries
            if any((part.entity_name or "").startswith(client.topic("")) for part in entry.entity)
        ]
        return answer.error_code, answer.error_message, sorted(ours)

    return noting


def request_settled(client: DialogueClient, request: AlterClientQuotasRequest) -> None:
    """Sends a request and waits until later ones see its effect: Kafka's broker applies records after the response."""
    client.request(request, noting=altered)
    settle(client)


def settle(client: DialogueClient) -> None:
    """Makes a change and waits until the broker has applied it, and so all before it; notes nothing."""
    last, rate = client.topic("last"), "producer_byte_rate"
    client.connection.request(alter(([("user", last)], {rate: 1.0})), LAST)
    client.request_until(describe(("user", EXACT, last)), lambda it: bool(it.entries), LAST)
    client.connection.request(alter(([("user", last)], {rate: None})), LAST)
    client.request_until(describe(("user", EXACT, last)), lambda it: not it.entries, LAST)


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def set_change_and_remove(client: DialogueClient) -> None:
    user = client.topic("alice")
    wanted = describe(("user", EXACT, user))
    steps: tuple[Ops, ...] = (
        {"producer_byte_rate": 1024.0},
        {"producer_byte_rate": 1024.0},
        {"producer_byte_rate": 2048.0, "consumer_byte_rate": 1.0, "request_percentage": 12.5},
        {"controller_mutation_rate": 0.25, "consumer_byte_rate": None},
        {"consumer_byte_rate": None},
        {},
        {"producer_byte_rate": None, "request_percentage": None, "controller_mutation_rate": None},
    )
    for ops in steps:
        request_settled(client, alter(([("user", user)], ops)))
        client.request(wanted, noting=of_this_dialogue(client))


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def validation_only(client: DialogueClient) -> None:
    user = client.topic("alice")
    for ops in ({"producer_byte_rate": 1024.0}, {"producer_byte_rate": -1.0}, {"no_such_rate": 1.0}):
        request_settled(client, alter(([("user", user)], ops), validate_only=True))
        client.request(describe(("user", EXACT, user)), noting=of_this_dialogue(client))


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def invalid_values(client: DialogueClient) -> None:
    user = [("user", client.topic("alice"))]
    for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"):
        for value in (
            *(0.0, -1.0, -0.0, 0.5, 1.5, 1.0000001, 1.00001, 1e-9, 3.0e9, 1e18, 1e19),
            *(float(1 << 63), math.inf, -math.inf, math.nan),
        ):
            client.request(alter((user, {key: value})), noting=altered)
    address = [("ip", "10.9.8.7")]
    for value in (0.0, -1.0, 0.5, 1.00001, 2147483647.0, 2147483648.0, math.nan):
        client.request(
            alter((address, {"connection_creation_rate": value}), validate_only=True), noting=altered
        )


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def invalid_keys_of_entities(client: DialogueClient) -> None:
    user, program = ("user", client.topic("alice")), ("client-id", client.topic("app"))
    for parts in ([user], [program], [user, program], [("ip", "10.9.8.7")], [("user", None)], [("ip", None)]):
        for key in ("producer_byte_rate", "connection_creation_rate", "no_such_rate", "", "SCRAM-SHA-256"):
            client.request(alter((parts, {key: 10.0}), validate_only=True), noting=altered)
            client.request(alter((parts, {key: None}), validate_only=True), noting=altered)


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def invalid_entities(client: DialogueClient) -> None:
    user, program, address = (
        ("user", client.topic("alice")),
        ("client-id", client.topic("app")),
        ("ip", "10.9.8.7"),
    )
    for parts in (
        [],
        [("group", "g")],
        [("", "g")],
        [("User", "g")],
        [("user", "")],
        [("client-id", "")],
        [("ip", "")],
        [user, address],
        [program, address],
        [user, program, address],
        [user, ("user", client.topic("bob"))],
        [user, ("group", "g")],
        [("ip", "no host of this name")],
        [("ip", "300.1.2.3.4")],
    ):
        client.request(alter((parts, {"producer_byte_rate": 10.0}), validate_only=True), noting=altered)
        client.request(alter((parts, {"connection_creation_rate": 10.0}), validate_only=True), noting=altered)
        client.request(alter((parts, {})), noting=altered)


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def ip_addresses(client: DialogueClient) -> None:
    for address in ("10.9.8.7", "::1", "2001:db8::7", "localhost", None):
        parts = [("ip", address)]
        request_settled(client, alter((parts, {"connection_creation_rate": 7.0})))
        match = ("ip", DEFAULT) if address is None else ("ip", EXACT, address)
        client.request(describe(match), noting=every)
        request_settled(client, alter((parts, {"connection_creation_rate": None})))
        client.request(describe(match), noting=every)


def every(answer: DescribeClientQuotasResponse) -> object:
    return answer.error_code, [(parts_of(entry), entry.values) for entry in answer.entries or ()]


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def duplicate_entities_and_keys(client: DialogueClient) -> None:
    alice, bob = [("user", client.topic("alice"))], [("user", client.topic("bob"))]
    rate = "producer_byte_rate"
    request_settled(client, alter((alice, [(rate, 1.0), (rate, 2.0)]), (bob, {rate: 3.0})))
    client.request(describe(("user", SPECIFIED)), noting=of_this_dialogue(client))
    request_settled(client, alter((alice, {rate: 1.0}), (bob, {rate: 4.0}), (alice, {rate: 2.0})))
    client.request(describe(("user", SPECIFIED)), noting=of_this_dialogue(client))
    client.request(alter((alice, [(rate, None), (rate, None)])), noting=altered)


@dialogue(ApiKey.ALTER_CLIENT_QUOTAS, FIRST, LAST)
def valid_and_invalid_entries(client: DialogueClient) -> None:
    alice, bob = [("user", client.topic("alice"))], [("user", client.topic("bob"))]
    request_settled(
        client,
        alter(
            (alice, {"producer_byte_rate": 1.0, "consumer_byte_rate": -1.0}),
            (bob, {"producer_byte_rate": 3.0}),
            ([], {"producer_byte_rate": 3.0}),
        ),
    )
    client.request(describe(("user", SPECIFIED)), noting=of_this_dialogue(client))
    client.request(alter())


@dialogue(ApiKey.DESCRIBE_CLIENT_QUOTAS, FIRST, LAST)
def filters(client: DialogueClient) -> None:
    alice, bob, app = client.topic("alice"), client.topic("bob"), client.topic("app")
    rate = {"producer_byte_rate": 5.0}
    entities: tuple[Parts, ...] = (
        [("user", alice)],
        [("user", bob)],
        [("client-id", app)],
        [("user", alice), ("client-id", app)],
        [("client-id", None), ("user", alice)],
        [("user", None), ("client-id", app)],
    )
    request_settled(client, alter(*((parts, rate) for parts in entities)))
    user_matches = [(), ("user", EXACT, alice), ("user", EXACT, bob), ("user", DEFAULT), ("user", SPECIFIED)]
    client_matches = [
        (),
        ("client-id", EXACT, app),
        ("client-id", EXACT, "nobody"),
        ("client-id", DEFAULT),
        ("client-id", SPECIFIED),
    ]
    for strict in (False, True):
        for first in user_matches:
            for second in client_matches:
                components: list[Any] = [match for match in (first, second) if match]
                client.request(describe(*components, strict=strict), noting=of_this_dialogue(client))


@dialogue(ApiKey.DESCRIBE_CLIENT_QUOTAS, FIRST, LAST)
def invalid_filters(client: DialogueClient) -> None:
    wrong: tuple[list[Any], ...] = (
        [("", EXACT, "a")],
        [("group", EXACT, "a")],
        [("User", SPECIFIED)],
        [("user", EXACT)],
        [("user", DEFAULT, "a")],
        [("user", SPECIFIED, "a")],
        [("user", 3)],
        [("user", 3, "a")],
        [("user", -1)],
        [("user", SPECIFIED), ("user", SPECIFIED)],
        [("user", EXACT, "a"), ("user", DEFAULT)],
        [("user", SPECIFIED), ("ip", SPECIFIED)],
        [("ip", EXACT, "10.9.8.7"), ("client-id", DEFAULT)],
        [("user", SPECIFIED), ("group", SPECIFIED), ("", SPECIFIED)],
    )
    for components in wrong:
        client.request(describe(*components))
