"""A listener with OAUTHBEARER that is added while a whole server runs: nothing else waits for its identity provider."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.broker.startup.server import Server
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.running_server import LOCALHOST, TIMEOUT_S, config_of, connected, running
from tests.support.identity_provider import IdentityProvider
from tests.support.ports import held_ports

BROKER_RESOURCE = 4
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.tokens"
STATIC = {
    "listeners": f"PLAINTEXT://{LOCALHOST}:0",
    "advertised_listeners": f"PLAINTEXT://{LOCALHOST}:9",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
    "node_id": "1",
}


class SlowProvider(IdentityProvider):
    """It answers when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_now = threading.Event()
        self.answers = threading.Event()

    def pause(self) -> None:
        self.asked_now.set()
        self.answers.wait(TIMEOUT_S)


@pytest.fixture
def provider() -> Iterator[SlowProvider]:
    made = SlowProvider()
    with made:
        yield made
        made.answers.set()


@asynccontextmanager
async def server_of(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(config_of(tmp_path, **STATIC)) as server:
        yield server


def settings(url: str) -> dict[str, str]:
    """Those that add a listener of tokens, whose keys are at a URL."""
    return {
        "listeners": f"PLAINTEXT://{LOCALHOST}:0,TOKENS://{LOCALHOST}:0",
        f"{PREFIX}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}.oauthbearer.sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        f"{PREFIX}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": url,
        f"{PREFIX}.oauthbearer.sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "0",
        f"{PREFIX}.oauthbearer.sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "0",
    }


async def alter(server: Server, texts: dict[str, str]) -> IncrementalAlterConfigsResponse:
    one = IncrementalAlterConfigsRequest.AlterableConfig
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name="1",
        configs=[one(name=key, config_operation=0, value=text) for key, text in texts.items()],
    )
    async with connected(server.ports["PLAINTEXT"]) as client:
        answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return answer


async def logs_in(server: Server, token: str) -> bool:
    async with connected(server.ports["TOKENS"]) as client:
        await client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        answer = await client.call(SaslAuthenticateRequest(auth_bytes=first), 2)
    return answer.error_code == ErrorCode.NONE and not answer.auth_bytes


async def test_the_loop_goes_on_while_the_keys_of_a_new_listener_are_fetched(
    tmp_path: Path, provider: SlowProvider
) -> None:
    async with server_of(tmp_path) as server:
        altering = asyncio.ensure_future(alter(server, settings(provider.keys_url)))
        await asyncio.to_thread(provider.asked_now.wait, TIMEOUT_S)
        async with connected(server.ports["PLAINTEXT"]) as client:
            assert (await client.call(MetadataRequest(topics=[]), 12)).brokers
        assert not altering.done()  # the provider has not answered
        assert "TOKENS" not in server.ports
        provider.answers.set()
        (told,) = (await altering).responses
        assert (told.error_code, told.error_message) == (ErrorCode.NONE, None)
        assert await logs_in(server, provider.token("alice"))
        assert not await logs_in(server, "x.y.z")
        assert provider.asked("/keys") == 1


async def test_a_provider_that_cannot_be_reached_has_the_settings_refused(tmp_path: Path) -> None:
    (port,) = held_ports(1)
    url = f"http://{LOCALHOST}:{port}/keys"
    async with server_of(tmp_path) as server:
        for _ in range(2):
            (told,) = (await alter(server, settings(url))).responses
            assert told.error_code == ErrorCode.INVALID_REQUEST
            key = f"{PREFIX}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
            said = f"configuration {key}: must have the identity provider's keys: {url} does not answer"
            assert said in (told.error_message or "")
        assert list(server.ports) == ["PLAINTEXT"]


async def test_a_listener_that_others_have_recorded_opens_when_its_keys_are_there(
    tmp_path: Path, provider: SlowProvider
) -> None:
    """As where the settings of a member are altered at a controller, which does not ask it."""
    async with server_of(tmp_path) as server:
        server.config.reconfiguration_checks.clear()
        (told,) = (await alter(server, settings(provider.keys_url))).responses
        assert told.error_code == ErrorCode.NONE
        await asyncio.to_thread(provider.asked_now.wait, TIMEOUT_S)
        assert "TOKENS" not in server.ports
        provider.answers.set()
        async with connected(server.ports["PLAINTEXT"]) as client:
            while "TOKENS" not in server.ports:
                await client.call(MetadataRequest(topics=[]), 12)
        assert await logs_in(server, provider.token("alice"))
