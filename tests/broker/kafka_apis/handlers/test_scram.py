"""DescribeUserScramCredentials and AlterUserScramCredentials. The rules themselves are tested in test_scram_admin."""

from __future__ import annotations

from pathlib import Path

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import DescribeUserScramCredentialsRequest
from tests.broker.broker_fixture import WAITS, InProcessBroker
from tests.broker.held_runner import HeldRunner
from tests.conformance.dialogues.scram import SHA_256, SHA_512, alter, describe
from tests.support.difference import Like


def test_credentials_are_set_described_and_deleted(broker: InProcessBroker) -> None:
    client = broker.client(version=0)
    altered = Like(
        throttle_time_ms=0,
        results=[
            Like(user="alice", error_code=0, error_message=None),
            Like(user="bob", error_code=0, error_message=None),
        ],
    )
    assert client >> alter(("alice", SHA_256, 4096), ("bob", SHA_512, 5000)) << altered
    alice = Like(
        user="alice",
        error_code=0,
        error_message="",
        credential_infos=[Like(mechanism=SHA_256, iterations=4096)],
    )
    bob = Like(user="bob", error_code=0, credential_infos=[Like(mechanism=SHA_512, iterations=5000)])
    assert client >> describe("alice") << Like(error_code=0, error_message="", results=[alice])
    everybody = DescribeUserScramCredentialsRequest(users=None)
    assert client >> describe() << Like(results=[alice, bob])
    assert client >> everybody << Like(results=[alice, bob])
    assert client >> alter(deletions=[("alice", SHA_256)]) << Like(results=[Like(user="alice", error_code=0)])
    assert client >> everybody << Like(results=[bob])


def test_an_invalid_change_has_a_code_and_a_reason(broker: InProcessBroker) -> None:
    client = broker.client(version=0)
    answer = client.ask(alter(("alice", SHA_256, 1), ("bob", 9, 4096)))
    results = {it.user: it for it in answer.results}  # type: ignore[attr-defined]
    assert results["alice"].error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert results["bob"].error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert all(result.error_message for result in results.values())
    nobody = Like(user="alice", error_code=ErrorCode.RESOURCE_NOT_FOUND, credential_infos=[])
    assert client >> describe("alice") << Like(error_code=0, results=[nobody])


def test_a_failed_write_fails_the_request(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=0)
    assert client >> alter(("alice", SHA_256, 4096)) << WAITS
    runner.fail(OSError("no"))
    assert client << Like(results=[Like(user="alice", error_code=ErrorCode.KAFKA_STORAGE_ERROR)])
    assert client >> describe() << Like(results=[])
    broker.kill()


def test_credentials_survive_a_restart_and_no_secret_is_stored(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    secret = b"a salted password that may not be seen"
    altered = Like(results=[Like(error_code=0)])
    assert broker.client(version=0) >> alter(("alice", SHA_256, 4096), salted_password=secret) << altered
    broker.stop()
    assert not any(secret in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    broker = InProcessBroker(tmp_path)
    assert broker.client(version=0) >> describe() << Like(results=[Like(user="alice")])
    broker.kill()
