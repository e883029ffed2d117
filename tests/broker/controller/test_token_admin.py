"""The rules of delegation tokens, and a model of a token's life."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from barnabas.broker.controller.token_admin import (
    MAX_REMOVALS,
    NewToken,
    TokenLimits,
    check_enabled,
    create,
    expire,
    is_expired,
    is_owner_or_renewer,
    renew,
    sweep,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import DELEGATION_TOKENS
from barnabas.broker.request import KafkaPrincipal
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord, RemoveDelegationTokenRecord

ALICE, BOB, CAROL = (KafkaPrincipal(name) for name in ("alice", "bob", "carol"))
LIMITS = TokenLimits(max_lifetime_ms=1000, expiry_time_ms=100)
LAST_MOMENT = 2**63 - 1


def wanted(max_lifetime_ms: int = -1, *renewers: KafkaPrincipal, owner: KafkaPrincipal = ALICE) -> NewToken:
    return NewToken(owner, ALICE, renewers, max_lifetime_ms)


def token(max_ms: int = 1000, expiry_ms: int = 100) -> DelegationTokenRecord:
    """A token of alice that bob may renew."""
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=["User:bob"],
        issue_timestamp=0,
        max_timestamp=max_ms,
        expiration_timestamp=expiry_ms,
        token_id="t",
    )


def test_a_new_token() -> None:
    record = create("t", wanted(-1, BOB, CAROL, owner=CAROL), LIMITS, 5000)
    assert record == DelegationTokenRecord(
        owner="User:carol",
        requester="User:alice",
        renewers=["User:bob", "User:carol"],
        issue_timestamp=5000,
        max_timestamp=6000,
        expiration_timestamp=5100,
        token_id="t",
    )


@pytest.mark.parametrize(
    ("asked", "times"),
    [
        (-1, (6000, 5100)),
        (0, (6000, 5100)),
        (500, (5500, 5100)),
        (50, (5050, 5050)),
        (5000, (6000, 5100)),
        (LAST_MOMENT, (6000, 5100)),
    ],
)
def test_the_shorter_lifetime_holds(asked: int, times: tuple[int, int]) -> None:
    record = create("t", wanted(asked), LIMITS, 5000)
    assert (record.max_timestamp, record.expiration_timestamp) == times


def test_time_has_an_end() -> None:
    for_ever = TokenLimits(LAST_MOMENT, LAST_MOMENT)
    record = create("t", wanted(), for_ever, 5000)
    assert (record.max_timestamp, record.expiration_timestamp) == (LAST_MOMENT, LAST_MOMENT)
    assert renew(record, ALICE, -1, for_ever, 6000) == record
    assert expire(record, ALICE, LAST_MOMENT, 6000) == (record, LAST_MOMENT)


def test_a_renewer_has_to_be_a_user() -> None:
    with pytest.raises(ApiError) as caught:
        create("t", wanted(-1, BOB, KafkaPrincipal("ops", "Group")), LIMITS, 0)
    assert caught.value.code is ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(
    ("limits", "level", "code"),
    [
        (None, DELEGATION_TOKENS, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (None, 0, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (LIMITS, DELEGATION_TOKENS - 1, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_without_a_key_or_in_old_metadata_there_are_none(
    limits: TokenLimits | None, level: int, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as caught:
        check_enabled(limits, level)
    assert caught.value.code is code
    assert check_enabled(LIMITS, DELEGATION_TOKENS) is LIMITS


@pytest.mark.parametrize(
    ("period", "expiry"), [(-1, 150), (0, 150), (20, 70), (100, 150), (101, 150), (LAST_MOMENT, 150)]
)
def test_renewal(period: int, expiry: int) -> None:
    for principal in (ALICE, BOB):
        renewed = renew(token(), principal, period, LIMITS, 50)
        assert renewed == token(expiry_ms=expiry)


def test_no_renewal_beyond_the_maximum() -> None:
    assert renew(token(max_ms=120), BOB, -1, LIMITS, 50) == token(max_ms=120, expiry_ms=120)


@pytest.mark.parametrize(
    ("record", "principal", "now", "on_renewal", "on_expiry"),
    [
        (None, ALICE, 0, ErrorCode.DELEGATION_TOKEN_NOT_FOUND, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (token(), ALICE, 101, ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (token(90), BOB, 91, ErrorCode.DELEGATION_TOKEN_EXPIRED, ErrorCode.DELEGATION_TOKEN_EXPIRED),
        (
            token(),
            CAROL,
            100,
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ),
        (
            token(),
            CAROL,
            101,
            ErrorCode.DELEGATION_TOKEN_EXPIRED,
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ),
    ],
)
def test_the_order_of_errors(
    record: DelegationTokenRecord | None,
    principal: KafkaPrincipal,
    now: int,
    on_renewal: ErrorCode,
    on_expiry: ErrorCode,
) -> None:
    with pytest.raises(ApiError) as caught:
        renew(record, principal, -1, LIMITS, now)
    assert caught.value.code is on_renewal
    with pytest.raises(ApiError) as caught:
        expire(record, principal, 10, now)
    assert caught.value.code is on_expiry


def test_expiry() -> None:
    assert expire(token(), BOB, 0, 50) == (token(expiry_ms=50), 50)
    assert expire(token(), ALICE, 500, 50) == (token(expiry_ms=550), 550)
    assert expire(token(), ALICE, 5000, 50) == (token(expiry_ms=1000), 1000)


@pytest.mark.parametrize("now", [50, 101, 5000])
def test_a_period_below_zero_removes_the_token_expired_or_not(now: int) -> None:
    assert expire(token(), BOB, -1, now) == (RemoveDelegationTokenRecord(token_id="t"), now)


def test_a_sweep_takes_what_has_expired_and_no_more_than_a_batch() -> None:
    tokens = {
        str(number): replace_times(token(), expiry_ms=number, token_id=str(number))
        for number in range(2 * MAX_REMOVALS)
    }
    assert [record.token_id for record in sweep(tokens, 3)] == ["0", "1", "2"]
    assert len(sweep(tokens, LAST_MOMENT)) == MAX_REMOVALS
    assert sweep({}, 3) == []


def replace_times(record: DelegationTokenRecord, *, expiry_ms: int, token_id: str) -> DelegationTokenRecord:
    record.expiration_timestamp = expiry_ms
    record.token_id = token_id
    return record


def test_owners_and_renewers() -> None:
    assert [is_owner_or_renewer(token(), each) for each in (ALICE, BOB, CAROL)] == [True, True, False]
    assert not is_owner_or_renewer(token(), KafkaPrincipal("alice", "Group"))


@dataclass(frozen=True)
class Life:
    """What a client knows of a token."""

    owner: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    born: int
    maximum: int
    expiry: int


USERS = st.sampled_from([ALICE, BOB, CAROL])
PERIODS = st.integers(-2, 1500)


class TokenLives(RuleBasedStateMachine):
    """Tokens in an image beside what their users know of them."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.image = MetadataImage.empty()
        self.lives: dict[str, Life] = {}
        self.count = 0

    def commit(self, *records: object) -> None:
        self.image, _ = replayed(self.image, records)  # type: ignore[arg-type]  # messages

    @rule(milliseconds=st.integers(0, 400))
    def time_passes(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(target=ids, owner=USERS, renewers=st.lists(USERS, max_size=2), lifetime=PERIODS)
    def created(self, owner: KafkaPrincipal, renewers: list[KafkaPrincipal], lifetime: int) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.commit(create(name, NewToken(owner, owner, renewers, lifetime), LIMITS, self.now))
        maximum = self.now + (min(1000, lifetime) if lifetime > 0 else 1000)
        expiry = min(maximum, self.now + 100)
        self.lives[name] = Life(owner, tuple(renewers), self.now, maximum, expiry)
        return name

    @rule(name=ids, who=USERS, period=PERIODS)
    def renewed(self, name: str, who: KafkaPrincipal, period: int) -> None:
        life, record = self.lives.get(name), self.image.tokens.get(name)
        reason = self.reason(life, who, time_first=True)
        if life is None or reason is not None:
            with pytest.raises(ApiError) as caught:
                renew(record, who, period, LIMITS, self.now)
            assert caught.value.code is reason
            return
        self.commit(renew(record, who, period, LIMITS, self.now))
        later = self.now + (min(100, period) if period > 0 else 100)
        self.lives[name] = replace(life, expiry=min(life.maximum, later))

    @rule(name=ids, who=USERS, period=PERIODS)
    def expired(self, name: str, who: KafkaPrincipal, period: int) -> None:
        life, token = self.lives.get(name), self.image.tokens.get(name)
        reason = self.reason(life, who, time_first=False)
        if period < 0 and reason is ErrorCode.DELEGATION_TOKEN_EXPIRED:
            reason = None
        if life is None or reason is not None:
            with pytest.raises(ApiError) as caught:
                expire(token, who, period, self.now)
            assert caught.value.code is reason
            return
        record, moment = expire(token, who, period, self.now)
        self.commit(record)
        if period < 0:
            del self.lives[name]
        else:
            self.lives[name] = replace(life, expiry=min(life.maximum, self.now + period))
            assert moment == self.lives[name].expiry

    @rule()
    def swept(self) -> None:
        self.commit(*sweep(self.image.tokens, self.now))
        self.lives = {name: life for name, life in self.lives.items() if life.expiry >= self.now}

    def reason(self, life: Life | None, who: KafkaPrincipal, *, time_first: bool) -> ErrorCode | None:
        if life is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        late = ErrorCode.DELEGATION_TOKEN_EXPIRED if life.expiry < self.now else None
        stranger = None
        if who not in (life.owner, *life.renewers):
            stranger = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        return late or stranger if time_first else stranger or late

    @invariant()
    def the_metadata_are_what_clients_know(self) -> None:
        assert self.image.tokens.keys() == self.lives.keys()
        for name, life in self.lives.items():
            record = self.image.tokens[name]
            assert (record.issue_timestamp, record.max_timestamp) == (life.born, life.maximum)
            assert record.expiration_timestamp == life.expiry
            assert is_expired(record, self.now) is (life.expiry < self.now)


TestTokenLives = TokenLives.TestCase
