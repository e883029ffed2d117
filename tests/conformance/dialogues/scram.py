"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

UNKNOWN, SHA_256, SHA_512 = 0, 1, 2
SALT, SALTED_PASSWORD = b"salt" * 6, bytes(range(32))

Upsert = tuple[str, int, int]


def alter(
    *upsertions: Upsert,
    deletions: Sequence[tuple[str, int]] = (),
    salt: bytes = SALT,
    salted_password: bytes = SALTED_PASSWORD,
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=name, mechanism=mechanism)
            for name, mechanism in deletions
        ],
        upsertions=[
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=iterations,
                salt=salt,
                salted_password=salted_password,
            )
            for name, mechanism, iterations in upsertions
        ],
    )


def describe(*users: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(
        users=[DescribeUserScramCredentialsRequest.UserName(name=user) for user in users]
    )


def sorted_results(answer: DescribeUserScramCredentialsResponse) -> object:
    """The results sorted by user: Kafka returns users in hash order."""
    assert answer.error_message == "", answer
    assert all(result.error_code or result.error_message == "" for result in answer.results), answer
    answer.results.sort(key=lambda result: result.user)
    for result in answer.results:
        result.credential_infos.sort(key=lambda info: info.mechanism)
    return answer


def altered(answer: AlterUserScramCredentialsResponse) -> object:
    answer.results.sort(key=lambda result: result.user)
    return answer


def request_settled(client: DialogueClient, request: AlterUserScramCredentialsRequest) -> None:
    """Sends a request and waits until later ones see its effect: Kafka's broker applies records after the response."""
    client.request(request, noting=altered)
    last = client.topic("last")
    client.connection.request(alter((last, SHA_256, 4096)), 0)
    client.request_until(describe(last), lambda it: it.results[0].error_code == 0)
    client.connection.request(alter(deletions=[(last, SHA_256)]), 0)
    client.request_until(describe(last), lambda it: it.results[0].error_code != 0)


@dialogue(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)
def set_change_and_delete(client: DialogueClient) -> None:
    alice, bob = client.topic("alice"), client.topic("bob")
    for request in (
        alter((alice, SHA_256, 4096), (bob, SHA_512, 16384)),
        alter((alice, SHA_512, 8192)),
        alter((alice, SHA_512, 9000), deletions=[(bob, SHA_512)]),
        alter(deletions=[(alice, SHA_256)]),
        alter(deletions=[(alice, SHA_256)]),
        alter(deletions=[(alice, SHA_512)]),
        alter(),
    ):
        request_settled(client, request)
        client.request(describe(alice, bob), noting=sorted_results)


@dialogue(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)
def invalid_credentials(client: DialogueClient) -> None:
    alice = client.topic("alice")
    for iterations in (-1, 0, 4095, 16385, 2147483647):
        client.request(alter((alice, SHA_256, iterations)), noting=altered)
        client.request(alter((alice, SHA_512, iterations)), noting=altered)
    for mechanism in (UNKNOWN, 3, -1, 127):
        client.request(alter((alice, mechanism, 4096)), noting=altered)
        client.request(alter(deletions=[(alice, mechanism)]), noting=altered)
    client.request(alter(("", SHA_256, 4096)), noting=altered)
    client.request(alter(("", UNKNOWN, 1)), noting=altered)
    client.request(alter(deletions=[("", SHA_256)]), noting=altered)
    request_settled(client, alter((alice, SHA_256, 4096), salted_password=b""))
    client.request(describe(alice), noting=sorted_results)


@dialogue(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)
def unusual_salts_and_passwords(client: DialogueClient) -> None:
    alice = client.topic("alice")
    client.request(alter((alice, SHA_256, 4096), salt=b""), noting=altered)
    request_settled(client, alter((alice, SHA_512, 4096), salted_password=b"x" * 500))
    client.request(describe(alice), noting=sorted_results)


@dialogue(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0)
def duplicate_users(client: DialogueClient) -> None:
    alice, bob, carol = client.topic("alice"), client.topic("bob"), client.topic("carol")
    request_settled(client, alter((alice, SHA_256, 4096), (bob, SHA_256, 4096)))
    for request in (
        alter((alice, SHA_256, 5000), (alice, SHA_512, 5000), (carol, SHA_256, 5000)),
        alter((alice, SHA_256, 5000), deletions=[(alice, SHA_256), (bob, SHA_256)]),
        alter(deletions=[(carol, SHA_256), (carol, SHA_256)]),
        alter((alice, SHA_256, 1), (alice, SHA_256, 6000)),
        alter((alice, SHA_256, 6000), (alice, SHA_256, 1), (alice, SHA_256, 7000)),
    ):
        request_settled(client, request)
        client.request(describe(alice, bob, carol), noting=sorted_results)


@dialogue(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)
def described_users(client: DialogueClient) -> None:
    alice, bob = client.topic("alice"), client.topic("bob")
    request_settled(client, alter((alice, SHA_256, 4096), (bob, SHA_512, 5000)))
    for request in (
        describe(alice),
        describe(alice, bob),
        describe(alice, alice, bob),
        describe(client.topic("nobody"), alice),
        describe(client.topic("nobody"), client.topic("nobody")),
        describe(""),
    ):
        client.request(request, noting=sorted_results)


@dialogue(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0)
def all_users(client: DialogueClient) -> None:
    alice = client.topic("alice")
    request_settled(client, alter((alice, SHA_256, 4096)))

    def our_users(answer: DescribeUserScramCredentialsResponse) -> object:
        answer.results = [result for result in answer.results if result.user == alice]
        return answer

    client.request(describe(), noting=our_users)
    client.request(DescribeUserScramCredentialsRequest(users=None), noting=our_users)
