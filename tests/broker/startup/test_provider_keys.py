"""The keys of identity providers for a broker: fetched at the start, and kept fresh by timers and threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from barnabas.broker.security.sasl.jwks import ProviderKeys, RefreshTimes
from barnabas.broker.security.sasl.oauthbearer_settings import Provider
from barnabas.broker.startup.provider_keys import BrokerProviders
from barnabas.broker.waiting.blocking import Done, Work
from barnabas.config.dynamic import SettingsWaitError
from barnabas.security.errors import ProviderError
from tests.support.identity_provider import IdentityProvider
from tests.support.tokens import SigningKey

TIMES = RefreshTimes(60_000, 100, 250)


class Timer:
    def __init__(self, at: float, act: Callable[[], object]) -> None:
        self.at = at
        self.act = act
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A clock and timers that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> Timer:
        self.timers.append(Timer(when, lambda: callback(*args)))
        return self.timers[-1]

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> None:
        callback(*args)

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """As the code under test takes it, which calls no more of it."""
        return cast("asyncio.AbstractEventLoop", self)

    def pending(self) -> list[float]:
        """In how many seconds the timers are due."""
        return [round(timer.at - self.now, 3) for timer in self.timers if not timer.is_cancelled]

    def advance(self) -> None:
        """To the next timer."""
        timer = min((each for each in self.timers if not each.is_cancelled), key=lambda each: each.at)
        self.now = timer.at
        timer.is_cancelled = True
        timer.act()


class Runner:
    """Runs work when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Work, Done]] = []

    def submit(self, work: Work, done: Done) -> None:
        self.work.append((work, done))

    def run(self) -> None:
        work, done = self.work.pop(0)
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised
        done(error)


class Harness:
    def __init__(self, provider: IdentityProvider, times: RefreshTimes = TIMES) -> None:
        self.loop = Loop()
        self.runner = Runner()
        self.providers = BrokerProviders(self.loop.as_loop, self.runner)
        self.provider = Provider(provider.keys_url, (), times)
        self.keys = self.providers.find(self.provider, None)


def test_the_first_fetch_is_at_once_and_once_for_all_listeners() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        assert harness.keys.current.key_ids == {"one"}
        assert harness.providers.find(harness.provider, None) is harness.keys
        other = harness.provider._replace(times=RefreshTimes())
        assert harness.providers.find(other, None) is not harness.keys
        assert provider.asked("/keys") == 2
        assert harness.loop.pending() == []  # before the start nothing is fetched again
        harness.keys.missed("two")
        assert harness.runner.work == []


def test_the_first_fetch_must_succeed() -> None:
    with IdentityProvider() as provider:
        provider.failure = (404, b"")
        with pytest.raises(ProviderError, match="HTTP 404"):
            Harness(provider)


def test_keys_are_fetched_again_and_again() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        assert harness.loop.pending() == [60]
        provider.keys = [SigningKey("ES256", "two")]
        harness.loop.advance()
        assert harness.keys.current.key_ids == {"one"}
        harness.runner.run()
        assert harness.keys.current.key_ids == {"two"}
        assert harness.loop.pending() == [60]


def test_a_fetch_that_fails_is_tried_again_and_the_keys_stay() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        provider.failure = (503, b"")
        waits = []
        for _ in range(5):
            harness.loop.advance()
            harness.runner.run()
            waits += harness.loop.pending()
        assert waits == [0.1, 0.15, 60, 0.1, 0.15]
        assert harness.keys.failures == 5
        assert harness.keys.current.key_ids == {"one"}


def test_a_key_that_is_not_known_is_fetched_early_by_one_fetch() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        provider.keys = [SigningKey("ES256", "two"), *provider.keys]
        harness.keys.missed("two")
        harness.loop.now += 2
        harness.keys.missed("three")
        assert len(harness.runner.work) == 1
        harness.runner.run()
        assert harness.keys.current.key_ids == {"one", "two"}
        assert harness.loop.pending() == [60]


# ---- a listener that is added while clients are served


class Added:
    """A listener that is added after the start: it asks for keys, and once more when it is called back."""

    def __init__(self, harness: Harness, provider: Provider) -> None:
        self.harness = harness
        self.provider = provider
        self.outcomes: list[ProviderKeys | ProviderError] = []
        self.ask()

    def ask(self) -> None:
        try:
            self.outcomes.append(self.harness.providers.find(self.provider, None))
        except ProviderError as error:
            self.outcomes.append(error)
        except SettingsWaitError as wait:
            wait.fetch(self.ask)


def test_the_keys_for_a_listener_that_is_added_are_fetched_once_in_a_thread() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        other = harness.provider._replace(times=RefreshTimes(5000))
        with pytest.raises(SettingsWaitError, match="has to be fetched first"):
            harness.providers.find(other, None)
        assert harness.runner.work == []  # a check that nobody waits for fetches nothing
        added = [Added(harness, other), Added(harness, other)]
        assert provider.asked("/keys") == 1
        assert [each.outcomes for each in added] == [[], []]
        harness.runner.run()
        assert provider.asked("/keys") == 2
        keys = harness.providers.find(other, None)
        assert [each.outcomes for each in added] == [[keys], [keys]]
        assert harness.loop.pending() == [60, 5]
        assert harness.runner.work == []


def test_a_provider_that_fails_is_tried_again_as_at_a_start() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        provider.failure = (503, b"")
        added = Added(harness, harness.provider._replace(times=RefreshTimes(5000, 100, 250)))
        harness.runner.run()
        waits = [min(harness.loop.pending())]
        harness.loop.advance()
        provider.failure = (500, b"")
        harness.runner.run()
        waits.append(min(harness.loop.pending()))
        assert added.outcomes == []
        harness.loop.advance()
        harness.runner.run()
        assert waits == [0.1, 0.15]
        (error,) = added.outcomes
        assert "HTTP 503" in str(error)
        assert harness.loop.pending() == [59.75]
        provider.failure = None
        added.ask()  # whoever asks anew has it fetched anew
        harness.runner.run()
        assert isinstance(added.outcomes[1], ProviderKeys)


def test_a_failure_that_is_final_is_not_tried_again() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        added = Added(
            harness, harness.provider._replace(url=f"{provider.url}/other", times=RefreshTimes(5000, 0, 0))
        )
        harness.runner.run()
        assert "it has no list of keys" in str(added.outcomes)
        assert provider.asked("/other") == 1


def test_a_first_fetch_ends_with_the_broker() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        provider.failure = (503, b"")
        added = Added(harness, harness.provider._replace(times=RefreshTimes(5000)))
        harness.providers.close()
        harness.runner.run()
        assert "HTTP 503" in str(added.outcomes)
        assert harness.loop.pending() == []


def test_nothing_is_fetched_after_the_end() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        harness.keys.missed("two")
        harness.providers.close()
        harness.runner.run()
        assert harness.loop.pending() == []
        harness.loop.now += 120
        harness.keys.missed("three")
        assert harness.runner.work == []


def test_a_bug_in_a_fetch_is_not_hidden() -> None:
    with IdentityProvider() as provider:
        harness = Harness(provider)
        harness.providers.start()
        harness.loop.advance()
        _, done = harness.runner.work.pop()
        with pytest.raises(ZeroDivisionError):
            done(ZeroDivisionError())
