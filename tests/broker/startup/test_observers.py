"""The view of a whole broker from outside: metrics and HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from barnabas.broker.metrics.families import FAMILIES
from barnabas.broker.metrics.member_metrics import MEMBER_FAMILIES
from barnabas.broker.startup.server import Server
from tests.broker.http.test_server import Reply, ask
from tests.broker.metrics.snapshots import snapshot_at_once
from tests.broker.running_server import LOCALHOST, config_of, connected, running
from tests.broker.startup.fake_controller import config_of_member, controlling
from tests.support import raw


def values(server: Server) -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample, by metric and label values (the count of summaries)."""
    return {
        family.name: {sample[0]: sample[1] for sample in samples}
        for family, samples in snapshot_at_once(server.observers.metrics(server))
    }


async def reply(port: int, path: str) -> Reply:
    return await asyncio.to_thread(ask, port, path)


@contextmanager
def serving(server: Server) -> Iterator[int]:
    """The broker's HTTP port, open."""
    http = server.observers.serve_http(server)
    assert http is not None
    with closing(http):
        yield http.port


def with_http(directory: Path, port: int = 0) -> dict[str, str]:
    return {
        "log_dirs": str(directory),
        "barnabas_http_host": LOCALHOST,
        "barnabas_http_port": str(port),
    }


async def test_every_metric_that_is_declared_has_a_source(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server:
        assert values(server).keys() == FAMILIES.keys() - MEMBER_FAMILIES


async def test_a_member_of_a_cluster_has_metrics_of_its_own_and_none_of_a_controller(tmp_path: Path) -> None:
    async with controlling() as controller:
        config = config_of_member(tmp_path, controller, barnabas_http_host=LOCALHOST, barnabas_http_port="0")
        async with running(config) as server:
            seen = values(server)
            assert seen.keys() >= MEMBER_FAMILIES
            assert seen["kafka_controller_kafkacontroller_activecontrollercount"][()] == 0
            assert "kafka_controller_kafkacontroller_globaltopiccount" not in seen
            with serving(server) as port:
                assert (await reply(port, "/health/ready")).status == 200


async def test_the_metrics_of_a_used_broker(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server, connected(server.ports["PLAINTEXT"]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        seen = values(server)
        assert seen["kafka_server_replicamanager_leadercount"][()] == 1
        assert seen["kafka_controller_kafkacontroller_globaltopiccount"][()] == 1
        assert seen["kafka_network_requestmetrics_requests_total"]["Metadata", "1"] == 1
        assert seen["kafka_log_log_logendoffset"]["t", "0"] == 0
        assert seen["kafka_log_logmanager_offlinelogdirectorycount"][()] == 0
        server.components.replica_manager.log_dir_failed(str(tmp_path))
        seen = values(server)
        assert seen["kafka_log_logmanager_offlinelogdirectorycount"][()] == 1
        assert seen["kafka_server_replicamanager_offlinereplicacount"][()] == 1


async def test_http_serves_metrics_and_readiness(tmp_path: Path) -> None:
    async with running(config_of(**with_http(tmp_path))) as server:
        with serving(server) as port:
            metrics = await reply(port, "/metrics")
            assert metrics.status == 200
            assert "kafka_server_replicamanager_leadercount 0.0" in metrics.body
            assert (await reply(port, "/health/ready")).status == 200
            server.components.replica_manager.log_dir_failed(str(tmp_path))
            failed = await reply(port, "/health/ready")
            assert failed.status == 503
            assert f"failed log directories: {tmp_path}" in failed.body
            assert (await reply(port, "/health/live")).status == 200


async def test_a_stopping_broker_is_not_ready(tmp_path: Path) -> None:
    async with running(config_of(**with_http(tmp_path))) as server:
        with serving(server) as port:
            server.is_stopping = True
            stopping = await reply(port, "/health/ready")
            assert stopping.status == 503
            assert "the broker is stopping" in stopping.body


async def test_http_can_be_disabled(tmp_path: Path) -> None:
    async with running(config_of(**with_http(tmp_path, port=-1))) as server:
        assert server.observers.serve_http(server) is None


async def test_a_taken_http_port_is_a_warning_and_the_broker_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as other:
        other.bind((LOCALHOST, 0))
        other.listen()
        port = other.getsockname()[1]
        async with running(config_of(**with_http(tmp_path, port))) as server:
            assert server.observers.serve_http(server) is None
            (warning,) = caplog.messages
            assert str(port) in warning
            assert "barnabas.http.port" in warning
            async with connected(server.ports["PLAINTEXT"]) as client:
                assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1


async def test_a_port_with_a_login_counts_its_failures(tmp_path: Path) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="pencil";'
    settings = {
        **with_http(tmp_path),
        "barnabas_http_security_protocol": "SASL_PLAINTEXT",
        "barnabas_http_sasl_jaas_config": jaas,
    }
    async with running(config_of(**settings)) as server:
        with serving(server) as port:
            assert (await reply(port, "/metrics")).status == 401
            assert (await reply(port, "/health/ready")).status == 200
            login = server.http_security.login
            assert login is not None
            assert not await asyncio.to_thread(login.admits, "Basic x", ("127.0.0.1", 1))
            assert values(server)["barnabas_http_failed_logins_total"] == {(): 1.0}
