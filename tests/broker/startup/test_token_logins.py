"""A whole server whose clients log in by delegation tokens."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.startup.server import Server
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.broker.running_server import LOCALHOST, Stream, connected, running
from tests.support.sasl import SCRAM_MODULE, ScramClient, listener_settings, plain_entry, plain_token

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def config(tmp_path: Path, **more: str) -> BrokerConfig:
    entries = {"PLAIN": plain_entry(alice="pencil", bob="hush")}
    entries |= dict.fromkeys(MECHANISMS, f"{SCRAM_MODULE} required;")
    values = {
        "listeners": f"SASL://{LOCALHOST}:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "barnabas.http.port": "-1",
        "log.dirs": str(tmp_path),
        "delegation.token.secret.key": "the key of all brokers",
        **listener_settings("SASL", entries),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in values.items()])


@asynccontextmanager
async def as_user(server: Server, user: str = "alice", password: str = "pencil") -> AsyncIterator[Stream]:
    async with connected(server.ports["SASL"]) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=plain_token(user, password))
        assert (await client.call(token, 2)).error_code == ErrorCode.NONE
        yield client


async def log_in(client: Stream, mechanism: str, token_id: str, secret: bytes) -> Any:
    """The last response of a login by token."""
    scram = ScramClient(mechanism, token_id, b64encode(secret).decode(), extensions=",tokenauth=true")
    await client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
    first = await client.call(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
    assert first.error_code == ErrorCode.NONE
    last = await client.call(SaslAuthenticateRequest(auth_bytes=scram.final(first.auth_bytes)), 2)
    assert last.error_code != ErrorCode.NONE or scram.trusts(last.auth_bytes)
    return last


async def fails(server: Server, token_id: str, secret: bytes) -> str:
    async with connected(server.ports["SASL"]) as client:
        answer = await log_in(client, "SCRAM-SHA-256", token_id, secret)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    return str(answer.error_message)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_login_by_token(tmp_path: Path, mechanism: str) -> None:
    async with running(config(tmp_path)) as server, as_user(server) as alice:
        made = await alice.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=60_000), 3)
        for _ in range(2):
            async with connected(server.ports["SASL"]) as client:
                answer = await log_in(client, mechanism, made.token_id, made.hmac)
                assert (answer.error_code, 50_000 < answer.session_lifetime_ms <= 60_000) == (0, True)
                assert (await client.call(MetadataRequest(topics=[]), 9)).brokers
                refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
                assert (await client.call(CreateDelegationTokenRequest(renewers=[]), 3)).error_code == refused
                described = await client.call(DescribeDelegationTokenRequest(owners=None), 3)
                assert (described.error_code, described.tokens) == (refused, [])
                for request in (
                    RenewDelegationTokenRequest(hmac=made.hmac),
                    ExpireDelegationTokenRequest(hmac=made.hmac),
                ):
                    assert (await client.call(request, 2)).error_code == refused


async def test_an_unknown_a_removed_and_an_expired_token_and_a_wrong_secret_fail_alike(
    tmp_path: Path,
) -> None:
    async with running(config(tmp_path)) as server, as_user(server) as alice:
        removed = await alice.call(CreateDelegationTokenRequest(renewers=[]), 3)
        expired = await alice.call(CreateDelegationTokenRequest(renewers=[]), 3)
        good = await alice.call(CreateDelegationTokenRequest(renewers=[]), 3)
        async with connected(server.ports["SASL"]) as client:
            before = await log_in(client, "SCRAM-SHA-256", removed.token_id, removed.hmac)
            assert before.error_code == 0
            assert (
                await alice.call(ExpireDelegationTokenRequest(hmac=removed.hmac, expiry_time_period_ms=-1), 2)
            ).error_code == 0
            assert (
                await client.call(MetadataRequest(topics=[]), 9)
            ).brokers  # its session goes on, as in Kafka
        assert (
            await alice.call(ExpireDelegationTokenRequest(hmac=expired.hmac, expiry_time_period_ms=0), 2)
        ).error_code == 0
        texts = {
            await fails(server, removed.token_id, removed.hmac),
            await fails(server, expired.token_id, expired.hmac),
            await fails(server, "unknown", good.hmac),
            await fails(server, good.token_id, removed.hmac),
        }
        assert texts == {
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        }


async def test_a_session_ends_with_its_token_and_may_be_renewed_before(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as server, as_user(server) as alice:
        made = await alice.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=60_000), 3)
        async with connected(server.ports["SASL"]) as client:
            await log_in(client, "SCRAM-SHA-512", made.token_id, made.hmac)
            await alice.call(ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=30_000), 2)
            again = await log_in(client, "SCRAM-SHA-512", made.token_id, made.hmac)
            assert (again.error_code, again.session_lifetime_ms <= 30_000) == (0, True)
            assert (await client.call(MetadataRequest(topics=[]), 9)).brokers


async def test_tokens_are_swept_while_the_broker_runs(tmp_path: Path) -> None:
    settings = {"delegation.token.expiry.check.interval.ms": "1"}
    async with running(config(tmp_path, **settings)) as server, as_user(server) as alice:
        await alice.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=1), 3)
        for _ in range(1000):
            if not server.components.image.tokens:
                break
            described = await alice.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert not server.components.image.tokens
        described = await alice.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert described.tokens == []


async def test_the_key_is_read_again_at_the_next_start(tmp_path: Path) -> None:
    async with running(config(tmp_path)) as server, as_user(server) as alice:
        made = await alice.call(CreateDelegationTokenRequest(renewers=[]), 3)
    async with running(config(tmp_path)) as server, connected(server.ports["SASL"]) as client:
        assert (await log_in(client, "SCRAM-SHA-512", made.token_id, made.hmac)).error_code == 0
    other = {"delegation.token.secret.key": "another"}
    async with running(config(tmp_path, **other)) as server:
        await fails(server, made.token_id, made.hmac)
    none = {"delegation.token.secret.key": ""}
    async with running(config(tmp_path, **none)) as server:
        await fails(server, made.token_id, made.hmac)
