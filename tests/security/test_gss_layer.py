"""The messages behind the tokens of Kerberos."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.gss_layer import OFFER, GssLayerError, authorization_id_of, choice_of


def test_no_protection_is_offered_and_chosen() -> None:
    assert OFFER == b"\1\0\0\0"
    assert choice_of(b"\1\0\0\0") == b"\1\0\0\0"
    assert choice_of(b"\7\0\xff\xff") == b"\1\0\0\0"
    assert authorization_id_of(b"\1\0\0\0") == ""
    assert authorization_id_of("\1\0\0\0zoë@R".encode()) == "zoë@R"


@pytest.mark.parametrize(
    ("offer", "why"), [(b"", "have 0 bytes"), (b"\1\0\0\0x", "have 5 bytes"), (b"\6\0\0\0", "use TLS")]
)
def test_what_a_client_does_not_take(offer: bytes, why: str) -> None:
    with pytest.raises(GssLayerError, match=why):
        choice_of(offer)


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (b"\1\0\0", "has 3 bytes"),
        (b"\2\0\0\0", "chooses protection 2"),
        (b"\3\0\0\0", "chooses protection 3"),
        (b"\1\0\0\0\xff", "no UTF-8"),
    ],
)
def test_what_a_server_does_not_take(choice: bytes, why: str) -> None:
    with pytest.raises(GssLayerError, match=why):
        authorization_id_of(choice)


@given(message=st.binary(max_size=20))
def test_any_bytes_are_a_choice_or_an_error(message: bytes) -> None:
    try:
        made = authorization_id_of(message)
    except GssLayerError:
        assert message[:1] != b"\1" or len(message) < 4 or not _is_utf8(message[4:])
    else:
        assert made.encode() == message[4:]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
