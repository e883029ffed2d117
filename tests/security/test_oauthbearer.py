"""The messages of OAUTHBEARER, and its client."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.errors import SaslClientError
from barnabas.security.oauthbearer import (
    InitialMessage,
    MessageError,
    OAuthBearerClient,
    format_initial,
    is_extension,
    is_token,
    parse_initial,
)

NAMES = st.text(alphabet=st.sampled_from("abcXYZ"), min_size=1, max_size=5).filter(
    lambda name: name != "auth"
)
TEXTS = st.text(alphabet=[chr(code) for code in range(0x21, 0x7F)] + list(" \t\r\n"), min_size=1, max_size=8)
TOKENS = st.from_regex(r"[-_~+/.a-zA-Z0-9]+=*", fullmatch=True)


@given(TOKENS, st.dictionaries(NAMES, TEXTS, max_size=3))
def test_what_a_client_sends_a_server_reads(token: str, extensions: dict[str, str]) -> None:
    assert is_token(token)
    assert all(is_extension(name, value) for name, value in extensions.items())
    assert parse_initial(format_initial(token, extensions)) == InitialMessage(token, "", extensions)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", InitialMessage("a.b.c", "", {})),
        (b"n,a=alice,\x01auth=Bearer t\x01\x01", InitialMessage("t", "alice", {})),
        (b"n,a=a=2Cb=3D,\x01auth=bEARER   t==\x01\x01", InitialMessage("t==", "a=2Cb=3D", {})),
        (
            b"n,,\x01host=h\x01auth=Bearer t\x01port=1\x01\x01",
            InitialMessage("t", "", {"host": "h", "port": "1"}),
        ),
        (b"n,,\x01auth=Basic x\x01auth=Bearer t\x01\x01", InitialMessage("t", "", {})),
        (b"n,,\x01a=b=c\x01auth=Bearer t\x01\x01", InitialMessage("t", "", {"a": "b=c"})),
    ],
)
def test_messages(message: bytes, found: InitialMessage) -> None:
    assert parse_initial(message) == found


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "not of its form"),
        (b"\x01", "not of its form"),
        (b"n,,\x01\x01", "no bearer token"),
        (b"n,,auth=Bearer t\x01\x01", "not of its form"),
        (b"n,,\x01auth=Bearer t\x01", "not of its form"),
        (b"n,,\x01auth=Bearer t\x01\x01\n", "not of its form"),
        (b"y,,\x01auth=Bearer t\x01\x01", "not of its form"),
        (b"p=tls-unique,,\x01auth=Bearer t\x01\x01", "not of its form"),
        (b"n,a=,\x01auth=Bearer t\x01\x01", "not of its form"),
        (b"n,a=a=b,\x01auth=Bearer t\x01\x01", "not of its form"),
        (b"n,,\x01auth=Bearer t\x01a1=b\x01\x01", "not of its form"),
        (b"n,,\x01auth=Bearer t\x01a=\x01\x01", "not of its form"),
        (b"n,,\x01auth=Bearer t\x01a=\x80\x01\x01", "not of its form"),
        (b"n,,\x01auth=Bearer t\x00\x01\x01", "not of its form"),
        (b"n,,\x01auth=Bearer\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer t t\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer\tt\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Basic t\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer t=t\x01\x01", "no bearer token"),
        (b"n,,\x01Auth=Bearer t\x01\x01", "no bearer token"),
    ],
)
def test_messages_that_are_wrong(message: bytes, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        parse_initial(message)


@given(st.binary(max_size=40) | st.binary(max_size=30).map(lambda data: b"n,,\x01auth=Bearer " + data))
def test_any_bytes_are_a_message_or_an_error(message: bytes) -> None:
    try:
        found = parse_initial(message)
    except MessageError:
        return
    assert is_token(found.token)


def test_a_long_message_is_read_in_time() -> None:
    """Half a megabyte, as much as sasl.server.max.receive.size allows: the grammar goes over it once."""
    with pytest.raises(MessageError):
        parse_initial(b"n,a=" + b"=2C" * 170_000 + b"\x01")
    with pytest.raises(MessageError):
        parse_initial(b"n,,\x01" + b"a=b\x01" * 120_000)
    with pytest.raises(MessageError):
        parse_initial(b"n,,\x01auth=" + b"a" * 500_000 + b"\x01\x01")


def test_what_a_client_cannot_send() -> None:
    assert not is_extension("auth", "x")
    assert not is_extension("a1", "x")
    assert not is_extension("a", "")
    assert not is_extension("a", "x\x01b=y")
    assert not is_token("a b")
    assert not is_token("")


def test_a_client_whose_token_is_accepted() -> None:
    client = OAuthBearerClient(lambda: "t", {"a": "b"})
    assert client.mechanism == "OAUTHBEARER"
    assert client.initial() == b"n,,\x01auth=Bearer t\x01a=b\x01\x01"
    assert client.respond(b"") is None


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b'{"status":"invalid_token"}', "the server rejects the token: invalid_token"),
        (b"rubbish", "the server rejects the token: it does not say why"),
        (b'{"status":1}', "the server rejects the token: it does not say why"),
    ],
)
def test_a_client_whose_token_is_rejected(challenge: bytes, reason: str) -> None:
    """The server fails the login after \\x01; one that does not is no server."""
    client = OAuthBearerClient(lambda: "t", {})
    client.initial()
    assert client.respond(challenge) == b"\x01"
    with pytest.raises(SaslClientError) as caught:
        client.respond(b"")
    assert str(caught.value) == reason
