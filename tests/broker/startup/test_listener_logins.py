"""The logins of listeners, and the credentials of the metadata behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.security.sasl.listener import PLAIN_LOGIN_MODULE
from barnabas.broker.security.tokens import DelegationTokens
from barnabas.broker.startup.listener_logins import ListenerLogins
from barnabas.broker.startup.scram_secret import FILE_NAME
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.dynamic import SettingsWaitError
from barnabas.config.layers import InvalidConfigError
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord, UserScramCredentialRecord
from barnabas.protocol.messages.security import ScramMechanism
from tests.broker.startup.test_provider_keys import Loop, Runner
from tests.support.identity_provider import IdentityProvider


def logins_of() -> ListenerLogins:
    """Those of a broker whose loop only tells the time."""
    return ListenerLogins(Loop().as_loop, Runner(), {})


ALICE = UserScramCredentialRecord(name="alice", mechanism=1, iterations=4096)


def config(*more: str) -> BrokerConfig:
    jaas = f'{PLAIN_LOGIN_MODULE} required user_alice="pencil";'
    return BrokerConfig.of(
        None,
        overrides=[
            "listeners=SASL_PLAINTEXT://:9093",
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}",
            *more,
        ],
    )


def test_the_mechanisms_of_a_listener() -> None:
    logins = logins_of()
    assert list(logins.make(config(), "SASL_PLAINTEXT").mechanisms) == ["PLAIN"]
    assert logins.scram is logins.scram


def test_a_static_file_that_cannot_be_read_is_an_error_of_the_listener(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="must be a JAAS file that can be read"):
        logins_of().make(config(f"barnabas.jaas.config.file={tmp_path}/none"), "SASL_PLAINTEXT")


@pytest.mark.parametrize("opens_first", [True, False])
def test_credentials_are_those_of_the_metadata_whenever_a_listener_opens(
    tmp_path: Path, opens_first: bool
) -> None:
    logins = logins_of()
    if opens_first:
        logins.make(config(), "SASL_PLAINTEXT")
        assert logins.scram.find("alice", ScramMechanism.SCRAM_SHA_256) is None
    logins.attach(lambda: {("alice", 1): ALICE}, str(tmp_path))
    assert (tmp_path / FILE_NAME).exists() is opens_first
    logins.make(config(), "SASL_PLAINTEXT")
    assert (tmp_path / FILE_NAME).exists()
    assert logins.scram.find("alice", ScramMechanism.SCRAM_SHA_256) is not None


def test_tokens_are_those_of_the_metadata(tmp_path: Path) -> None:
    logins, tokens = logins_of(), DelegationTokens("a key", lambda: 0)
    record = DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=[],
        max_timestamp=1,
        expiration_timestamp=1,
        token_id="t",
    )
    image, delta = replayed(MetadataImage.empty(), [record])
    tokens.apply(image, delta)
    assert logins.scram.find_token("t", ScramMechanism.SCRAM_SHA_256) is None
    logins.attach(dict, str(tmp_path), tokens)
    found = logins.scram.find_token("t", ScramMechanism.SCRAM_SHA_256)
    assert found is not None
    assert found.user == "alice"


@pytest.mark.parametrize("opens_first", [True, False])
def test_a_secret_that_cannot_be_made_is_an_error(tmp_path: Path, opens_first: bool) -> None:
    logins = logins_of()
    nowhere = str(tmp_path / "nowhere")
    if opens_first:
        logins.make(config(), "SASL_PLAINTEXT")
        step: Callable[[], object] = partial(logins.attach, dict, nowhere)
    else:
        logins.attach(dict, nowhere)
        step = partial(logins.make, config(), "SASL_PLAINTEXT")
    wanted = rf"barnabas\.scram\.secret cannot be read or made in {nowhere}"
    with pytest.raises(InvalidConfigError, match=wanted):
        step()


def token_config(url: str) -> BrokerConfig:
    package = "org.apache.kafka.common.security.oauthbearer"
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
    return config(
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"{prefix}.server.callback.handler.class={package}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}.oauthbearer.jwks.endpoint.url={url}",
    )


@pytest.mark.parametrize("is_late", [False, True])
def test_keys_of_an_identity_provider_are_fetched_once_and_kept_fresh_while_clients_may_come(
    is_late: bool,
) -> None:
    loop, runner = Loop(), Runner()
    logins = ListenerLogins(loop.as_loop, runner, {"KAFKA_OPTS": "-Xmx1g"})
    with IdentityProvider() as provider:
        made = token_config(provider.keys_url)
        if is_late:
            logins.start()
            with pytest.raises(SettingsWaitError) as caught:
                logins.make(made, "SASL_PLAINTEXT")
            caught.value.fetch(lambda: None)
            runner.run()
        for _ in range(2):
            assert list(logins.make(made, "SASL_PLAINTEXT").mechanisms) == ["OAUTHBEARER"]
        assert provider.asked("/keys") == 1
        assert loop.pending() == ([3600] if is_late else [])
        if not is_late:
            logins.start()
        assert loop.pending() == [3600]
        logins.close()
        assert loop.pending() == []


def test_the_permission_of_java_is_in_the_environment() -> None:
    environ = {"KAFKA_OPTS": "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=http://other"}
    with pytest.raises(InvalidConfigError, match="KAFKA_OPTS"):
        ListenerLogins(Loop().as_loop, Runner(), environ).make(
            token_config("http://login.example"), "SASL_PLAINTEXT"
        )
