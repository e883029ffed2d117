"""SCRAM: messages, credentials, and users that do not exist."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.controller.scram_admin import Upsertion, credential_record
from barnabas.broker.security.sasl import scram
from barnabas.broker.security.sasl.scram import (
    MAX_MESSAGE_BYTES,
    MOCK_SALT_BYTES,
    Credential,
    ScramCredentials,
    ScramMechanismOfListener,
    ScramServer,
    parse_client_final,
    parse_client_first,
)
from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError, SaslError, WouldBlockError
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.messages.security import ScramMechanism
from barnabas.security import scram as arithmetic
from barnabas.security.scram import hmac_of
from tests.support.sasl import ScramClient

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
SALT = b"a salt of twenty by."


def record(
    user: str, mechanism: int = 1, password: str = "pencil", iterations: int = 4096
) -> UserScramCredentialRecord:
    hash_name = "sha256" if mechanism == 1 else "sha512"
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), SALT, iterations)
    return credential_record(Upsertion(user, mechanism, iterations, SALT, salted))


def credentials(*records: UserScramCredentialRecord, secret: bytes = b"secret") -> ScramCredentials:
    found = ScramCredentials()
    by_key = {(each.name, each.mechanism): each for each in records}
    found.attach(lambda: by_key, secret)
    return found


BOTH = credentials(
    record("alice"), record("alice", 2), record("a,b=c", iterations=5000), record("weak", iterations=4095)
)


def server(name: str = "SCRAM-SHA-256", of: ScramCredentials = BOTH) -> ScramServer:
    return ScramMechanismOfListener(name, of).new_server()


def log_in(client: ScramClient, login: ScramServer) -> bytes:
    return login.evaluate(client.final(login.evaluate(client.first())))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login(mechanism: str) -> None:
    login, client = server(mechanism), ScramClient(mechanism, "alice", "pencil")
    assert client.trusts(log_in(client, login))
    assert (login.login, login.user, login.blocks) == (Login("alice"), "alice", False)


def test_a_name_with_a_comma_and_an_equals_sign() -> None:
    login, client = server(), ScramClient("SCRAM-SHA-256", "a,b=c", "pencil", header="n,a=a=2Cb=3Dc,")
    with pytest.raises(SaslAuthenticationError):  # Kafka compares the authorization id as it is written
        log_in(client, login)
    login, client = server(), ScramClient("SCRAM-SHA-256", "a,b=c", "pencil")
    assert client.trusts(log_in(client, login))
    assert login.login == Login("a,b=c")


def test_an_authorization_id_that_is_the_user() -> None:
    login, client = server(), ScramClient("SCRAM-SHA-256", "alice", "pencil", header="n,a=alice,")
    assert client.trusts(log_in(client, login))


def test_extensions_are_signed_and_ignored() -> None:
    login = server()
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil", extensions=",tokenauth=false,x=y=z")
    assert client.trusts(log_in(client, login))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody", "weak"])
def test_a_wrong_password_and_an_unknown_user_fail_alike(mechanism: str, user: str) -> None:
    login, client = server(mechanism), ScramClient(mechanism, user, "pencils")
    first = login.evaluate(client.first())
    fields = dict(part.split("=", 1) for part in first.decode().split(","))
    assert (fields["i"], len(b64decode(fields["s"]))) == ("4096", MOCK_SALT_BYTES)
    with pytest.raises(SaslError) as caught:
        login.evaluate(client.final(first))
    assert not isinstance(caught.value, SaslAuthenticationError)
    assert (login.login, login.user) == (None, user)


def test_the_salt_of_an_unknown_user_is_always_the_same_and_its_own() -> None:
    def salt(user: str, mechanism: str = "SCRAM-SHA-256", of: ScramCredentials = BOTH) -> bytes:
        first = server(mechanism, of).evaluate(f"n,,n={user},r=abc".encode())
        return first.partition(b",s=")[2].partition(b",")[0]

    assert salt("nobody") == salt("nobody") == salt("nobody", of=credentials())
    others = {
        salt("nobody"),
        salt("nobody2"),
        salt("nobody", "SCRAM-SHA-512"),
        salt("nobody", of=credentials(secret=b"other")),
    }
    assert len(others) == 4


def test_before_the_metadata_are_read_nobody_logs_in() -> None:
    login, client = server(of=ScramCredentials()), ScramClient("SCRAM-SHA-256", "alice", "pencil")
    with pytest.raises(SaslError, match="no credential"):
        log_in(client, login)


def test_a_credential_that_changes_meanwhile_counts_for_the_next_login() -> None:
    records = {("alice", 1): record("alice")}
    changing = ScramCredentials()
    changing.attach(lambda: records, b"secret")
    login, client = server(of=changing), ScramClient("SCRAM-SHA-256", "alice", "pencil")
    first = login.evaluate(client.first())
    records.clear()
    assert client.trusts(login.evaluate(client.final(first)))
    with pytest.raises(SaslError, match="no credential"):
        log_in(client, server(of=changing))


def test_without_tokens_no_login_by_token_succeeds() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil", extensions=",tokenauth=true")
    with pytest.raises(SaslError, match="no credential"):
        log_in(client, server())


class OneToken:
    """A token of id `token-id` and secret `hmac`, for SCRAM-SHA-256."""

    def __init__(self, *, is_ready: bool = True) -> None:
        self.salts: set[bytes] = set()
        self._is_ready = is_ready

    def is_ready(self, token_id: str, mechanism: ScramMechanism) -> bool:
        return self._is_ready

    def credential(self, token_id: str, mechanism: ScramMechanism, salt: bytes) -> Credential | None:
        if (token_id, mechanism) != ("token-id", ScramMechanism.SCRAM_SHA_256):
            return None
        self.salts.add(salt)
        salted = hashlib.pbkdf2_hmac("sha256", b"hmac", salt, 4096)
        known = credential_record(Upsertion("", 1, 4096, salt, salted))
        return Credential("owner", salt, 4096, known.stored_key, known.server_key, True, 1_000_000)


def test_a_login_by_token() -> None:
    by_token, tokens = ScramCredentials(), OneToken()
    by_token.attach(dict, b"secret", tokens)
    login = server(of=by_token)
    client = ScramClient("SCRAM-SHA-256", "token-id", "hmac", extensions=",tokenauth=true")
    assert client.trusts(log_in(client, login))
    assert login.login == Login("owner", token_authenticated=True, expires_ms=1_000_000)
    with pytest.raises(SaslError, match="no credential"):
        log_in(ScramClient("SCRAM-SHA-256", "token-id", "hmac"), server(of=by_token))
    other = ScramClient("SCRAM-SHA-256", "other", "hmac", extensions=",tokenauth=TRUE")
    with pytest.raises(SaslError, match="no credential"):
        log_in(other, server(of=by_token))
    assert tokens.salts == {by_token.mock("token-id", ScramMechanism.SCRAM_SHA_256).salt}


def test_a_token_whose_keys_are_not_computed_yet_needs_a_thread() -> None:
    by_token, tokens = ScramCredentials(), OneToken(is_ready=False)
    by_token.attach(dict, b"secret", tokens)
    login = server(of=by_token)
    client = ScramClient("SCRAM-SHA-256", "token-id", "hmac", extensions=",tokenauth=true")
    with pytest.raises(WouldBlockError):
        login.evaluate(client.first())
    assert (login.blocks, tokens.salts) == (True, set())
    first = login.evaluate(client.first())
    assert not login.blocks  # the last message is quick
    assert client.trusts(login.evaluate(client.final(first)))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,n=alice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=a=b,r=abc",
        b"n,,n=a=2c,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=abc,",
        b"n,,n=alice,r=abc,e",
        b"n,,n=alice,r=abc,1=x",
        b"n,,n=al\0ice,r=abc",
        b"n,,n=alice,r=abc\n",
        "n,,n=älice,r=abc".encode(),
        b"\xff",
    ],
)
def test_first_messages_that_are_none(token: bytes) -> None:
    with pytest.raises(SaslError):
        server().evaluate(token)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("", "not of its form"),
        ("c=biws,r={nonce}", "not of its form"),
        ("c=biw,r={nonce},p=AAAA", "not of its form"),
        ("c=biws,r={nonce}x,p=AAAA", "another nonce"),
        ("c=biws,r=abc,p=AAAA", "another nonce"),
        ("c=eSws,r={nonce},p=AAAA", "another channel binding"),
        ("c=biws,r={nonce},p=AAAA", "the password is wrong"),
        ("c=biws,r={nonce},p=", "the password is wrong"),
    ],
)
def test_last_messages_that_are_wrong(form: str, reason: str) -> None:
    login = server()
    first = login.evaluate(b"n,,n=alice,r=abc").decode()
    nonce = first.partition(",")[0].removeprefix("r=")
    with pytest.raises(SaslError, match=reason):
        login.evaluate(form.format(nonce=nonce).encode())
    assert login.login is None


def test_each_login_has_a_nonce_of_its_own() -> None:
    firsts = {server().evaluate(b"n,,n=alice,r=abc") for _ in range(10)}
    assert len(firsts) == 10
    assert all(first.startswith(b"r=abc") for first in firsts)


def test_the_proof_of_another_login_is_none() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil")
    login = server()
    replayed = client.final(login.evaluate(client.first()))
    login.evaluate(replayed)
    again = server()
    again.evaluate(client.first())
    with pytest.raises(SaslError, match="another nonce"):
        again.evaluate(replayed)


_WORDS = st.text(alphabet="nrcpabs=,yi 2C3D\x7f/+", max_size=40).map(str.encode)


@given(st.binary(max_size=60) | _WORDS)
def test_any_bytes_are_messages_or_sasl_errors(token: bytes) -> None:
    for parse in (parse_client_first, parse_client_final):
        with suppress(SaslError):
            parse(token)


@given(
    st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=127), min_size=1),
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=1),
)
def test_a_first_message_is_read_as_it_was_written(user: str, nonce: str) -> None:
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = parse_client_first(f"n,,n={name},r={nonce},x=1".encode())
    assert (first.name, first.nonce, first.extensions) == (user, nonce, {"x": "1"})
    assert first.header + first.bare == f"n,,n={name},r={nonce},x=1"


def test_a_mechanism_has_the_names_of_its_listener() -> None:
    mechanism = ScramMechanismOfListener("SCRAM-SHA-512", BOTH, 7)
    assert (mechanism.name, mechanism.max_reauth_ms) == ("SCRAM-SHA-512", 7)


@pytest.mark.parametrize("parse", [parse_client_first, parse_client_final])
def test_a_long_message_is_not_looked_at(parse: Callable[[bytes], object]) -> None:
    with pytest.raises(SaslError, match="more than 4096 bytes"):
        parse(b"n,,n=alice,r=" + b"r" * MAX_MESSAGE_BYTES)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_costs_the_same_for_users_that_exist_and_others(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is computed is counted, hash by hash: a clock would tell of the machine."""
    computed: list[tuple[str, int, int]] = []

    def counting(hash_name: str, key: bytes, data: bytes) -> bytes:
        computed.append((hash_name, len(key), len(data)))
        return hmac_of(hash_name, key, data)

    for module in (scram, arithmetic):
        monkeypatch.setattr(module, "hmac_of", counting)
    costs = []
    for user in ("alice", "nobod"):
        computed.clear()
        login = server(mechanism)
        with pytest.raises(SaslError):
            log_in(ScramClient(mechanism, user, "wrong"), login)
        costs.append([*computed])
    assert costs[0] == costs[1]
    assert len(costs[0]) == 3  # the mock salt, and two of the last round
