"""DescribeClientQuotas and AlterClientQuotas. The rules of quotas themselves are tested in test_quota_admin."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.quotas import DescribeClientQuotasResponse
from tests.broker.broker_fixture import WAITS, InProcessBroker
from tests.broker.held_runner import HeldRunner
from tests.conformance.dialogues.quotas import DEFAULT, EXACT, SPECIFIED, alter, describe
from tests.support.difference import Like

VERSIONS = range(2)
ALICE = [("user", "alice")]
RATE = "producer_byte_rate"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_alters_and_describes(broker: InProcessBroker, version: int) -> None:
    client = broker.client(version=version)
    altered = Like(error_code=0, error_message=None, entity=[Like(entity_type="user", entity_name="alice")])
    assert client >> alter((ALICE, {RATE: 5.0})) << Like(throttle_time_ms=0, entries=[altered])
    entry = Like(entity=[Like(entity_type="user", entity_name="alice")], values=[Like(key=RATE, value=5.0)])
    for match in (("user", EXACT, "alice"), ("user", SPECIFIED)):
        assert client >> describe(match) << Like(error_code=0, error_message="", entries=[entry])
    assert client >> describe(("user", DEFAULT)) << Like(error_code=0, entries=[])


def test_validate_only_changes_nothing(broker: InProcessBroker) -> None:
    client = broker.client(version=1)
    assert client >> alter((ALICE, {RATE: 5.0}), validate_only=True) << Like(entries=[Like(error_code=0)])
    wrong = alter((ALICE, {RATE: 0.5}), validate_only=True)
    assert client >> wrong << Like(entries=[Like(error_code=ErrorCode.INVALID_REQUEST)])
    assert client >> describe() << Like(entries=[])


def test_host_names_are_resolved(broker: InProcessBroker) -> None:
    client = broker.client(version=1)
    known, unknown = [("ip", "localhost")], [("ip", "elsewhere")]
    quota = {"connection_creation_rate": 1.0}
    answer = Like(entries=[Like(error_code=0), Like(error_code=ErrorCode.INVALID_REQUEST)])
    assert client >> alter((known, quota), (unknown, quota)) << answer


def test_an_invalid_filter_has_no_entries(broker: InProcessBroker) -> None:
    answer = broker.client(version=1).ask(describe(("group", SPECIFIED)))
    assert isinstance(answer, DescribeClientQuotasResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.entries is None
    assert answer.error_message


def test_quotas_take_effect_with_the_response(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client, other = broker.client(version=1), broker.client(version=1)
    assert client >> alter((ALICE, {RATE: 5.0})) << WAITS
    assert other >> describe() << Like(entries=[])
    runner.release_all()
    assert client << Like(entries=[Like(error_code=0)])
    assert other >> describe() << Like(entries=[Like()])
    broker.kill()


def test_a_failed_write_fails_the_request(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=1)
    assert client >> alter((ALICE, {RATE: 5.0}), ([("user", "bob")], {RATE: 1.0})) << WAITS
    runner.fail(OSError("no"))
    failed = Like(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    assert client << Like(entries=[failed, failed])
    assert broker.client(version=1) >> describe() << Like(entries=[])
    broker.kill()


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    altered = Like(entries=[Like(error_code=0)])
    assert broker.client(version=1) >> alter((ALICE, {RATE: 5.0})) << altered
    broker.stop()
    broker = InProcessBroker(tmp_path)
    assert broker.client(version=1) >> describe() << Like(entries=[Like(values=[Like(key=RATE, value=5.0)])])
    broker.kill()


def test_too_many_entities_in_one_request_all_fail(broker: InProcessBroker) -> None:
    many = [([("user", str(number))], {RATE: 1.0}) for number in range(10_001)]
    answer = broker.client(version=1).ask(alter(*many))
    assert {entry.error_code for entry in answer.entries} == {ErrorCode.POLICY_VIOLATION}  # type: ignore[attr-defined]
    assert broker.client(version=1) >> describe() << Like(entries=[])
