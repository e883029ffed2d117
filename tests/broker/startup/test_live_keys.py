"""Every key that can be changed while the broker runs takes effect: at once after the change, and after a start.

For keys that topics can override, the tests of the log check the effect of a value; here it is checked that the value
reaches the log.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.broker.coordinator.group.consumer.settings import GroupSettings
from barnabas.broker.startup import node_directories, process
from barnabas.broker.startup.log_recovery import LogLoading
from barnabas.broker.startup.server import Server
from barnabas.config.catalogue import BROKER_KEYS, TOPIC_KEYS
from barnabas.config.keys import DynamicMode
from barnabas.config.messages import LISTENER_TLS_KEYS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.storage.log.unified_log import UnifiedLog
from tests.broker.running_server import LOCALHOST, config_of, connected, running
from tests.support import raw
from tests.support.sasl import plain_entry, plain_token

BROKER_RESOURCE, VERSION = 4, 1
SET, DELETE = 0, 1

Look = Callable[[Server], Any]


class Live(NamedTuple):
    """A key: its new value, where it takes effect, and what is expected there."""

    key: str
    text: str
    look: Look
    seen: Any


def the_log(server: Server) -> UnifiedLog:
    (log,) = server.storage.log_manager.all_logs()
    return log


def of_log(key: str, text: str, seen: Any) -> Live:
    """A broker's key that topics can override."""
    names = [
        name for name, topic in TOPIC_KEYS.items() if key in {synonym.name for synonym in topic.synonyms}
    ]
    (field,) = (name.replace(".", "_") for name in names)
    return Live(key, text, lambda server: getattr(the_log(server).config, field), seen)


def of_quotas(key: str, text: str, field: str, seen: Any) -> Live:
    return Live(key, text, lambda server: getattr(server.socket_server.limits, field), seen)


def assignment_interval_ms(server: Server) -> int:
    """For a group without its own settings."""
    return GroupSettings(server.config, lambda: server.components.controller.image).assignment_interval_ms(
        "g"
    )


LIVE = [
    of_log("compression.gzip.level", "5", 5),
    of_log("compression.lz4.level", "5", 5),
    of_log("compression.type", "zstd", "zstd"),
    of_log("compression.zstd.level", "5", 5),
    of_log("log.cleaner.delete.retention.ms", "5", 5),
    of_log("log.cleaner.max.compaction.lag.ms", "50", 50),
    of_log("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
    of_log("log.cleaner.min.compaction.lag.ms", "5", 5),
    of_log("log.cleanup.policy", "compact", {"compact"}),
    of_log("log.flush.interval.messages", "5", 5),
    of_log("log.flush.interval.ms", "5", 5),
    of_log("log.index.interval.bytes", "5", 5),
    of_log("log.index.size.max.bytes", "5000", 5000),
    of_log("log.message.timestamp.after.max.ms", "5", 5),
    of_log("log.message.timestamp.before.max.ms", "5", 5),
    of_log("log.message.timestamp.type", "LogAppendTime", "LogAppendTime"),
    of_log("log.preallocate", "true", True),
    of_log("log.retention.bytes", "5", 5),
    of_log("log.retention.ms", "5", 5),
    of_log("log.roll.jitter.ms", "5", 5),
    of_log("log.roll.ms", "50", 50),
    of_log("log.segment.bytes", "2000000", 2_000_000),
    of_log("log.segment.delete.delay.ms", "5", 5),
    of_log("message.max.bytes", "500", 500),
    Live("log.cleaner.backoff.ms", "500", lambda server: server.components.log_cleaner.backoff_s, 0.5),
    Live("group.consumer.assignment.interval.ms", "2000", assignment_interval_ms, 2000),
    Live(
        "log.cleaner.dedupe.buffer.size",
        "8000000",
        lambda server: server.components.log_cleaner.limits().dedupe_buffer_bytes,
        4_000_000,
    ),
    Live(
        "log.cleaner.io.buffer.load.factor",
        "0.5",
        lambda server: server.components.log_cleaner.limits().load_factor,
        0.5,
    ),
    Live(
        "log.cleaner.io.buffer.size",
        "8000",
        lambda server: server.components.log_cleaner.limits().io_buffer_bytes,
        2000,
    ),
    Live(
        "log.cleaner.io.max.bytes.per.second",
        "1e6",
        lambda server: server.components.log_cleaner.limits().max_io_bytes_per_second,
        500_000,
    ),
    Live(
        "log.cleaner.threads", "2", lambda server: server.components.log_cleaner.is_enabled, True
    ),  # and halves the values above
    of_quotas("max.connection.creation.rate", "5000", "max_connection_creation_rate", 5000),
    of_quotas("max.connections", "50", "max_connections", 50),
    of_quotas("max.connections.per.ip", "40", "max_connections_per_ip", 40),
    of_quotas(
        "max.connections.per.ip.overrides",
        "192.0.2.1:7",
        "max_connections_per_ip_overrides",
        {"192.0.2.1": 7},
    ),
    of_quotas(
        "listener.name.plaintext.max.connections",
        "30",
        "max_connections_per_listener",
        {"PLAINTEXT": 30, "INSIDE": 50},
    ),
    Live(
        "producer.id.expiration.ms",
        "5000",
        lambda server: the_log(server).producer_state_manager.expiration_ms,
        5000,
    ),
    Live(
        "transaction.partition.verification.enable",
        "false",
        lambda server: the_log(server).producer_state_manager.verifies_transactions,
        False,
    ),
    Live(
        "listeners",
        f"PLAINTEXT://{LOCALHOST}:0,INSIDE://{LOCALHOST}:0",
        lambda server: sorted(server.ports),
        ["INSIDE", "PLAINTEXT"],
    ),
    Live(
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        lambda server: len(server.config.listeners),
        2,
    ),
]

ELSEWHERE = {
    "cordoned.log.dirs": "tests of log directories",
    "min.insync.replicas": "one value for the whole cluster, below",
    "principal.builder.class": "acts for a listener that opens: test_listener_securities",
    "num.recovery.threads.per.data.dir": "acts at a start only, below",
    **dict.fromkeys(LISTENER_TLS_KEYS, "act for one listener: test_tls_listeners"),
    "ssl.engine.factory.class": "acts for a listener that opens: test_listener_securities",
    "sasl.enabled.mechanisms": "acts for a listener that opens, below",
    "sasl.jaas.config": "acts for one mechanism of a listener that opens, below",
    **dict.fromkeys(
        ["sasl.kerberos.service.name", "sasl.kerberos.principal.to.local.rules"],
        "acts for a listener that opens: test_gssapi",
    ),
}

STATIC = {
    "listeners": f"PLAINTEXT://{LOCALHOST}:0",
    "advertised_listeners": f"PLAINTEXT://{LOCALHOST}:9",
    "node_id": "1",
}


async def alter(port: int, broker: str, operation: int, settings: dict[str, str | None]) -> None:
    """Sets or deletes the keys by requests."""
    one = IncrementalAlterConfigsRequest.AlterableConfig
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name=broker,
        configs=[one(name=key, config_operation=operation, value=value) for key, value in settings.items()],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    header = RequestHeader(
        request_api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        request_api_version=VERSION,
        correlation_id=1,
        client_id=None,
    )
    async with connected(port) as client:
        answer = await client.ask(raw.frame(encode(header, 2) + encode(request, VERSION)))
    told = decode(IncrementalAlterConfigsResponse, VERSION, answer[5:])
    assert [(result.error_code, result.error_message) for result in told.responses] == [(0, None)]


def seen(server: Server) -> dict[str, Any]:
    return {live.key: live.look(server) for live in LIVE}


def expected() -> dict[str, Any]:
    return {live.key: live.seen for live in LIVE}


def test_every_live_key_is_checked() -> None:
    acting = {
        name for name, key in BROKER_KEYS.items() if key.acted_on and key.dynamic is not DynamicMode.READ_ONLY
    }
    assert acting <= {live.key for live in LIVE} | ELSEWHERE.keys()


async def test_all_keys_apply_at_once_and_after_a_start_until_deleted(tmp_path: Path) -> None:
    config = config_of(tmp_path, **STATIC)
    async with running(config) as server:
        port = server.ports["PLAINTEXT"]
        async with connected(port) as client:
            await client.ask(raw.metadata_request(topics=["t"]))
        before = seen(server)
        assert all(before[key] != value for key, value in expected().items() if key != "log.cleaner.threads")
        await alter(port, "1", SET, {live.key: live.text for live in LIVE})
        assert seen(server) == expected()
        async with connected(server.ports["INSIDE"]) as client:
            assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1
    async with running(config_of(tmp_path, **STATIC)) as again:
        assert seen(again) == expected()
        await alter(again.ports["PLAINTEXT"], "1", DELETE, {live.key: None for live in LIVE})
        assert seen(again) == before


async def test_min_insync_replicas_is_one_value_for_the_cluster(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, **STATIC)) as server:
        async with connected(server.ports["PLAINTEXT"]) as client:
            await client.ask(raw.metadata_request(topics=["t"]))
        await alter(server.ports["PLAINTEXT"], "", SET, {"min.insync.replicas": "2"})
        assert the_log(server).config.min_insync_replicas == 2
    async with running(config_of(tmp_path, **STATIC)) as again:
        assert the_log(again).config.min_insync_replicas == 2


async def test_recovery_uses_the_configured_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def loading(threads_per_dir: int) -> LogLoading:
        asked.append(threads_per_dir)
        return LogLoading(threads_per_dir)

    monkeypatch.setattr(node_directories, "LogLoading", loading)
    async with running(config_of(tmp_path, **STATIC)) as server:
        await alter(server.ports["PLAINTEXT"], "", SET, {"num.recovery.threads.per.data.dir": "4"})
    async with running(config_of(tmp_path, **STATIC)):
        await asyncio.sleep(0)
    assert asked == [2, 4]


async def test_compaction_begins_when_threads_are_added(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, **STATIC, log_cleaner_threads="0")) as server:
        found = [server.components.log_cleaner.manager.is_enabled]
        await alter(server.ports["PLAINTEXT"], "", SET, {"log.cleaner.threads": "1"})
        found.append(server.components.log_cleaner.manager.is_enabled)
    async with running(config_of(tmp_path, **STATIC, log_cleaner_threads="0")) as again:
        found.append(again.components.log_cleaner.manager.is_enabled)
    assert found == [False, True, True]


async def test_a_taken_port_of_a_new_listener_does_not_prevent_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**STATIC, "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"}
    with socket.socket() as other:
        other.bind((LOCALHOST, 0))
        other.listen()
        both = f"PLAINTEXT://{LOCALHOST}:0,INSIDE://{LOCALHOST}:{other.getsockname()[1]}"
        async with running(config_of(tmp_path, **settings)) as server:
            await alter(server.ports["PLAINTEXT"], "1", SET, {"listeners": both})
            assert server.ports.keys() == {"PLAINTEXT"}
        async with running(config_of(tmp_path, **settings)) as again:
            assert again.ports.keys() == {"PLAINTEXT"}
            assert "INSIDE" not in process._ready_line(again, None)
    assert caplog.text.count("listener INSIDE is not opened there") == 2


SECURED = {
    "listeners": f"PLAINTEXT://{LOCALHOST}:0,SASL://{LOCALHOST}:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": plain_entry(alice="pencil"),
}


async def can_log_in(port: int, password: str) -> bool:
    async with connected(port) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=plain_token("alice", password))
        response = await client.call(token, 2)
        return response.error_code == 0  # type: ignore[no-any-return]  # Any


async def test_logins_of_a_listener_act_when_it_opens(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, **STATIC)) as server:
        await alter(server.ports["PLAINTEXT"], "1", SET, dict(SECURED))
        assert await can_log_in(server.ports["SASL"], "pencil")
        assert not await can_log_in(server.ports["SASL"], "pencils")
    async with running(config_of(tmp_path, **STATIC)) as again:
        assert await can_log_in(again.ports["SASL"], "pencil")
        assert not await can_log_in(again.ports["SASL"], "pencils")


async def test_a_start_has_the_logins_that_the_metadata_say(tmp_path: Path) -> None:
    """Not those of the file, where the metadata override them."""
    listener = {
        "listeners": SECURED["listeners"],
        "advertised_listeners": f"PLAINTEXT://{LOCALHOST}:9",
        "node_id": "1",
        "listener_security_protocol_map": SECURED["listener.security.protocol.map"],
    }
    own = listener | {
        "sasl_enabled_mechanisms": "PLAIN",
        "listener_name_sasl_plain_sasl_jaas_config": plain_entry(alice="static"),
    }
    async with running(config_of(tmp_path, **STATIC)) as server:
        await alter(server.ports["PLAINTEXT"], "1", SET, dict(SECURED))
    async with running(config_of(tmp_path, **own)) as again:
        assert await can_log_in(again.ports["SASL"], "pencil")
        assert not await can_log_in(again.ports["SASL"], "static")
