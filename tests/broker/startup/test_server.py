"""Start, requests and stop of a whole broker, with real sockets and files."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.network.listeners import ListenError
from barnabas.broker.startup import server as server_module
from barnabas.broker.startup.exit_codes import StartFailedError, StartInterruptedError
from barnabas.config.layers import InvalidConfigError
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.cluster import BrokerHeartbeatRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.storage.errors import LogDirLockedError
from tests.broker.logs import batch
from tests.broker.running_server import LOCALHOST, config_of, connected, new_server, running
from tests.broker.startup.fake_controller import config_of_member, controlling, silence, until
from tests.conformance.dialogues.words import fetch, fetch_topic, partition, produce
from tests.support import raw

MARKER = ".kafka_cleanshutdown"
PLAINTEXT = "PLAINTEXT"


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which another socket listens."""
    with socket.socket() as other:
        other.bind((LOCALHOST, 0))
        other.listen()
        yield other.getsockname()[1]


# ---- start and stop


async def test_a_server_that_has_started_answers(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server, connected(server.ports[PLAINTEXT]) as client:
        assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1
        assert not server.is_stopping
        assert not (tmp_path / MARKER).exists()


async def test_every_listener_gets_its_port(tmp_path: Path) -> None:
    settings = {
        "listeners": f"PLAINTEXT://{LOCALHOST}:0,INSIDE://{LOCALHOST}:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    }
    async with running(config_of(tmp_path, **settings)) as server:
        assert len(set(server.ports.values())) == 2
        for port in server.ports.values():
            async with connected(port) as client:
                assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1


async def test_a_stop_leaves_the_marker_and_closes_everything(tmp_path: Path) -> None:
    server = new_server(config_of(tmp_path))
    await server.start()
    async with connected(server.ports[PLAINTEXT]) as client:
        assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1
        await server.stop()
        assert server.is_stopping
        assert await client.is_closed()
    assert (tmp_path / MARKER).exists()
    with pytest.raises(ConnectionRefusedError):
        async with connected(server.ports[PLAINTEXT]):
            pass


async def test_created_topics_are_there_after_a_stop(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as server, connected(server.ports[PLAINTEXT]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        topic_id = server.components.controller.image.topics["t"].topic_id
    async with running(config_of(tmp_path)) as again:
        assert again.components.controller.image.topics["t"].topic_id == topic_id
        assert again.components.replica_manager.partition("t", 0).leader_epoch == 2  # resigned, elected again
        assert again.ports[PLAINTEXT]


async def test_a_stop_answers_waiting_fetches(tmp_path: Path) -> None:
    server = new_server(config_of(tmp_path))
    await server.start()
    async with connected(server.ports[PLAINTEXT]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        client.send(fetch_request("t", max_wait_ms=600_000))
        while not server.components.replica_manager.fetch_purgatory.num_delayed:  # noqa: ASYNC110 (turns of the loop, no time)
            await asyncio.sleep(0)
        await server.stop()
        assert (await client.receive())[:4] == (7).to_bytes(4, "big")


async def test_requests_that_cannot_be_answered_in_time_are_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A produce that waits for a replica that does not fetch."""
    monkeypatch.setattr(server_module, "DRAIN_TIMEOUT_S", 0.0)
    server = new_server(config_of(tmp_path))
    await server.start()
    async with connected(server.ports[PLAINTEXT]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        topic_id = server.components.controller.image.topics["t"].topic_id
        absent = PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[1, 2], isr=[1, 2])
        changed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        server.components.controller.submit(
            lambda _: Decision(True, [absent]), lambda _: False
        ).add_done_callback(changed.set_result)
        assert await changed
        client.send(raw.frame(raw.header_v1(raw.PRODUCE, 8, 7) + encode(produce("t", batch("a")), 8)))
        while not server.components.replica_manager.produce_purgatory.num_delayed:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0)
        await server.stop()
        assert await client.is_closed()
    assert caplog.messages == ["1 connections did not finish within 0 s"]
    assert (tmp_path / MARKER).exists()


def fetch_request(topic: str, max_wait_ms: int) -> bytes:
    """Fetch v11 with the correlation id 7."""
    request: FetchRequest = fetch(fetch_topic(topic, [partition()]), max_wait_ms=max_wait_ms)
    return raw.frame(raw.header_v1(raw.FETCH, 11, 7) + encode(request, 11))


async def test_an_advertised_address_is_returned_or_that_of_the_connection(tmp_path: Path) -> None:
    advertised = config_of(tmp_path / "a", advertised_listeners="PLAINTEXT://kafka.example:19092")
    async with running(advertised) as server, connected(server.ports[PLAINTEXT]) as client:
        assert b"kafka.example" in await client.ask(raw.metadata_request())
    async with running(config_of(tmp_path / "b")) as server, connected(server.ports[PLAINTEXT]) as client:
        answer = await client.ask(raw.metadata_request())
        assert raw.string(LOCALHOST) + server.ports[PLAINTEXT].to_bytes(4, "big") in answer


# ---- failed starts


async def test_a_directory_belongs_to_one_server(tmp_path: Path) -> None:
    async with running(config_of(tmp_path)) as first:
        second = new_server(config_of(tmp_path))
        with pytest.raises(LogDirLockedError):
            await second.start()
        with pytest.raises(ConnectionRefusedError):
            async with connected(second.ports[PLAINTEXT]):
                pass
        async with connected(first.ports[PLAINTEXT]) as client:
            assert raw.brokers_in(await client.ask(raw.metadata_request())) == 1


async def test_a_taken_address(tmp_path: Path, taken_port: int) -> None:
    server = new_server(config_of(tmp_path / "data", listeners=f"PLAINTEXT://{LOCALHOST}:{taken_port}"))
    with pytest.raises(ListenError, match=str(taken_port)):
        await server.start()
    assert not (tmp_path / "data").exists()


async def test_a_mismatched_node_id(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, node_id="3")):
        pass
    with pytest.raises(InvalidConfigError):
        await new_server(config_of(tmp_path, node_id="4")).start()


# ---- failing disks


async def test_without_a_log_directory_left_the_server_has_failed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    async with running(config_of(f"{one},{other}")) as server:
        assert server.storage.metadata_dir == one
        server.components.replica_manager.log_dir_failed(other)
        assert not server.failed.done()
        server.components.replica_manager.log_dir_failed(one)
        assert server.failed.done()
        assert one in server.failed.result()
        server.components.replica_manager.log_dir_failed(one)  # it is not reported twice


async def test_without_the_metadata_directory_the_server_has_failed(tmp_path: Path) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    async with running(config_of(f"{one},{other}")) as server:
        server.components.replica_manager.log_dir_failed(one)
        assert "metadata" in server.failed.result()


# ---- as the member of a cluster (more of it in test_member_start.py)


async def test_a_member_starts_and_stops_with_its_controller(tmp_path: Path) -> None:
    async with controlling() as controller:
        config = config_of_member(f"{tmp_path}/one,{tmp_path}/other", controller)
        async with running(config) as server:
            assert server.membership is not None
            assert server.membership.not_ready is None
            assert controller.broker().end_points[0].port == server.ports[PLAINTEXT]
            server.components.replica_manager.log_dir_failed(f"{tmp_path}/other")
            await until(lambda: controller.last(BrokerHeartbeatRequest).offline_log_dirs)
            assert not server.failed.done()
        assert controller.last(BrokerHeartbeatRequest).want_shut_down
        assert (tmp_path / "one" / MARKER).exists()
        assert not (tmp_path / "other" / MARKER).exists()


async def test_a_member_whose_start_fails_releases_everything(tmp_path: Path) -> None:
    async with controlling() as controller:
        controller.unfences = False
        server = new_server(config_of_member(tmp_path, controller))
        start = asyncio.ensure_future(server.start())
        await until(lambda: any(not beat.want_fence for beat in controller.sent(BrokerHeartbeatRequest)))
        server.failed.set_result("the test")
        with pytest.raises(StartFailedError, match="the test"):
            await start
        with pytest.raises(ConnectionRefusedError):
            async with connected(server.ports[PLAINTEXT]):
                pass
        controller.unfences = True
        async with running(config_of_member(tmp_path, controller)):
            pass


@pytest.mark.parametrize("has_logs", [False, True], ids=["waits for the metadata", "has opened its logs"])
async def test_a_member_whose_start_is_interrupted_releases_everything(
    tmp_path: Path, *, has_logs: bool
) -> None:
    async with controlling() as controller:
        if has_logs:
            controller.unfences = False
        else:
            controller.answers[BrokerHeartbeatRequest] = silence
        server = new_server(config_of_member(tmp_path, controller))
        start = asyncio.ensure_future(server.start())
        await until(lambda: server.membership if has_logs else controller.sent(BrokerHeartbeatRequest))
        server.interrupt_start()
        with pytest.raises(StartInterruptedError):
            await start
        assert (tmp_path / ".kafka_cleanshutdown").exists() is has_logs
        controller.unfences = True
        controller.answers[BrokerHeartbeatRequest] = controller.beat
        async with running(config_of_member(tmp_path, controller)):
            pass
