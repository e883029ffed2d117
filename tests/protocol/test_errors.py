"""The error codes and the two exceptions. That codes and flags are Kafka's is checked in tests/conformance."""

from __future__ import annotations

from barnabas.protocol.errors import ApiError, ErrorCode, ProtocolError


def test_codes_run_without_a_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, len(ErrorCode) - 1))


def test_a_code_equals_its_number_and_is_found_by_it() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 3


def test_every_code_has_a_text() -> None:
    assert len({code.text for code in ErrorCode}) == len(ErrorCode)
    assert all(code.text and not code.text.endswith(".") for code in ErrorCode)


def test_retriable_is_a_property_of_the_code() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable


def test_api_error_shows_its_message_or_else_the_text_of_the_code() -> None:
    assert str(ApiError(ErrorCode.INVALID_CONFIG, "retention.ms: 'x' is no number")) == (
        "INVALID_CONFIG: retention.ms: 'x' is no number"
    )
    error = ApiError(ErrorCode.INVALID_CONFIG)
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, None)
    assert str(error) == f"INVALID_CONFIG: {ErrorCode.INVALID_CONFIG.text}"


def test_neither_exception_is_a_subclass_of_the_other() -> None:
    assert not issubclass(ProtocolError, ApiError)
    assert not issubclass(ApiError, ProtocolError)
