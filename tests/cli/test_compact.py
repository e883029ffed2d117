"""`barnabas compact` against a whole server in this process."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from barnabas.broker.startup.server import Server
from barnabas.cli import compact as compact_cli
from barnabas.cli.main import main
from barnabas.protocol.records.builder import build_batch
from tests.broker.network.tls_listeners import write_certificates
from tests.broker.running_server import LOCALHOST, config_of, connected, running
from tests.support import raw

LIMIT_S = 60.0


def barnabas(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compact", *arguments])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = {"barnabas_http_host": LOCALHOST, "barnabas_http_port": "0"}
    config = config_of(
        tmp_path,
        **settings,
        log_cleanup_policy="compact",
        log_cleaner_backoff_ms="3600000",
        log_cleaner_dedupe_buffer_size=str(2 << 20),
    )
    async with running(config) as server, connected(server.ports["PLAINTEXT"]) as client:
        await client.ask(raw.metadata_request(topics=["t"]))
        yield server


async def compact(server: Server, *arguments: str, scheme: str = "http") -> Result:
    http_server = server.observers.serve_http(server)
    assert http_server is not None
    with closing(http_server):
        url = f"{scheme}://{LOCALHOST}:{http_server.port}/"
        return await asyncio.wait_for(asyncio.to_thread(barnabas, *arguments, "--url", url), LIMIT_S)


def fill(server: Server) -> None:
    log = server.components.replica_manager.partition("t", 0).log
    for number in range(50):
        value = b"%d" % number
        log.append_as_leader(build_batch([(b"key", value, 1_700_000_000_000, ())]), 0)
    log.update_high_watermark(log.log_end_offset)


async def test_a_topic_is_compacted(server: Server) -> None:
    fill(server)
    result = await compact(server, "t", "--wait")
    assert result.exit_code == 0, result.output
    assert "t-0: compacted up to offset 50, " in result.stdout
    log = server.components.replica_manager.partition("t", 0).log
    assert log.size < 200


async def test_the_command_without_waiting(server: Server) -> None:
    fill(server)
    result = await compact(server, "t")
    assert (result.exit_code, result.stdout) == (0, "t: 1 partitions will be compacted\n")


async def test_a_missing_topic_is_an_error(server: Server) -> None:
    result = await compact(server, "nothing", "--wait")
    assert result.exit_code == 1
    assert result.stderr == "There is no topic 'nothing'.\n"
    assert (await compact(server, "../t")).exit_code == 1


def test_an_unknown_broker_is_an_error() -> None:
    result = barnabas("t", "--url", "http://127.0.0.1:9/")
    assert result.exit_code == 1
    assert "No broker answers at http://127.0.0.1:9/topics/t/compact" in result.stderr


def test_a_wrong_command_line() -> None:
    assert barnabas().exit_code == 2
    assert barnabas("t", "--no-such-option").exit_code == 2


def test_help_names_the_exit_codes() -> None:
    result = barnabas("--help")
    assert result.exit_code == 0
    assert "Exit codes:" in result.stdout
    assert "BARNABAS_URL" in result.stdout


# ---- a port with a login, over HTTPS


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a pencil";'


async def test_a_broker_that_asks_for_a_login(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    (tmp_path / "password").write_text("a pencil\r\nno more\n")
    (tmp_path / "wrong").write_text("a pen")
    config = config_of(
        tmp_path / "data",
        barnabas_http_host=LOCALHOST,
        barnabas_http_port="0",
        barnabas_http_security_protocol="SASL_SSL",
        barnabas_http_sasl_jaas_config=JAAS,
        barnabas_http_ssl_keystore_type="PEM",
        barnabas_http_ssl_keystore_location=f"{tmp_path}/broker.pem",
        connection_failed_authentication_delay_ms="0",
    )
    trusting = ["--ca-file", f"{tmp_path}/ca.pem"]
    async with running(config) as server:
        for words, told in {
            ("--user", "alice", "--password-file", f"{tmp_path}/password"): "There is no topic 't'.",
            (
                "--user",
                "alice",
                "--password-file",
                f"{tmp_path}/wrong",
            ): "401 Unauthorized: a login is required",
            (): "401 Unauthorized: a login is required",
        }.items():
            result = await compact(server, "t", *trusting, *words, scheme="https")
            assert (result.exit_code, result.stderr) == (1, f"{told}\n")
        assert "CERTIFICATE_VERIFY_FAILED" in (await compact(server, "t", scheme="https")).stderr


def test_options_of_the_login_belong_together(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for words in (
        ("--user", "a"),
        ("--password-file", f"{tmp_path}/file"),
        ("--ca-file", f"{tmp_path}/file"),
    ):
        assert barnabas("t", *words).exit_code == 2


# ---- against a broker with set responses


@contextmanager
def answering(*answers: Any) -> Iterator[str]:
    """An HTTP port that returns one response after the other; returns its URL."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = left.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        do_POST = do_GET  # noqa: N815  # as the base class wants it

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer((LOCALHOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://{LOCALHOST}:{server.server_port}"
        server.shutdown()
        thread.join()


def partition(state: str, percent: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "partitions": [
            {"partition": 0, "state": state, "percent": percent, "bytes": 10, "compacted_to": 5, **more}
        ]
    }


def test_the_command_waits_until_no_cleaning_is_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_cli, "POLL_INTERVAL_S", 0)
    states = [(200, partition(state, 50)) for state in compact_cli.BUSY]
    with answering((202, partition("queued")), *states, (200, partition("idle", 100))) as url:
        result = barnabas("t", "--wait", "--url", url)
    assert result.exit_code == 0
    assert result.stdout == "t-0: compacted up to offset 5, 10 bytes are 10\n"


@pytest.mark.parametrize(
    "end", [partition("uncleanable", error="rot"), partition("idle", error="killed"), partition("offline")]
)
def test_a_failed_cleaning_fails_the_command(end: dict[str, Any]) -> None:
    with answering((202, partition("queued")), (200, end)) as url:
        result = barnabas("t", "--wait", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("t-0: ")


def test_an_invalid_response_is_an_error() -> None:
    for answer in ((500, b"<html>"), (200, b"<html>"), (500, {"no": "error"})):
        with answering(answer) as url:
            result = barnabas("t", "--url", url)
        assert result.exit_code == 1
        assert result.stderr
