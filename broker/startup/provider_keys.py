"""BrokerProviders: the keys of identity providers for all listeners of a broker, fetched and kept fresh.

One set for each URL, shared by the listeners that name it. The first fetch of a start waits, with retries, since the
start needs it. Once clients may come nothing waits on the event loop any more: fetches run in threads, and the pauses
between them are timers of the loop. The first one for a listener that is added then has as many tries as one of a
start; until it has ended `find` raises SettingsWaitError.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from barnabas.broker.security.sasl.jwks import ProviderKeys
from barnabas.broker.security.sasl.oauthbearer_settings import Provider
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import TimerHandle
from barnabas.config.dynamic import SettingsWaitError
from barnabas.security.errors import ProviderError
from barnabas.security.identity_provider import get
from barnabas.security.json_web_keys import JsonWebKeys
from barnabas.security.token_login import Retry

MakeContext = Callable[[], ssl.SSLContext]


class _FirstFetch:
    """The first fetch of a provider's keys while clients are served, and who waits for it."""

    def __init__(self, keys: ProviderKeys, retry: Retry, now_s: float) -> None:
        self.keys = keys
        self.waiting: list[Callable[[], None]] = []
        self._ends_s = now_s + retry.max_ms / 1000
        self._wait_s = retry.backoff_ms / 1000
        self.error: ProviderError | None = None

    def pause_s(self, error: ProviderError, now_s: float) -> float | None:
        """A try has failed. How long until the next one; None: there is none. Source: as Retry.run."""
        self.error = self.error or error
        pause_s = min(self._wait_s, self._ends_s - now_s)
        self._wait_s *= 2
        return None if error.is_final or pause_s <= 0 else pause_s


class BrokerProviders:
    """Those of one broker. Lives on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runner: BlockingRunner) -> None:
        """`runner` waits for providers."""
        self._loop = loop
        self._runner = runner
        self._keys: dict[Provider, ProviderKeys] = {}
        self._timers: dict[Provider, TimerHandle] = {}
        self._fetching: set[Provider] = set()
        self._first: dict[Provider, _FirstFetch] = {}
        self._failed: dict[Provider, ProviderError] = {}
        """How a first fetch has ended, while those who wait for it are called back."""
        self._is_started = False
        self._is_closed = False

    def find(self, provider: Provider, make_context: MakeContext | None) -> ProviderKeys:
        """The keys of a provider. Those of a new one are fetched, which waits before the start alone.

        Raises ProviderError, and SettingsWaitError.
        """
        found = self._keys.get(provider)
        if found is not None:
            return found
        failed = self._failed.get(provider)
        if failed is not None:
            raise failed
        keys = ProviderKeys(
            provider.url,
            lambda: get(provider.url, make_context),
            provider.times,
            lambda: int(self._loop.time() * 1000),
        )
        retry = Retry(provider.times.backoff_ms, provider.times.backoff_max_ms)
        if self._is_started:
            raise SettingsWaitError(lambda then: self._wait(provider, keys, retry, then))
        keys.fetched(retry.run(keys.fetch_now))
        return self._take(provider, keys)

    def _take(self, provider: Provider, keys: ProviderKeys) -> ProviderKeys:
        keys.wanted = lambda: self._loop.call_soon_threadsafe(self._fetch, provider)
        self._keys[provider] = keys
        return keys

    # ---- the first fetch while clients are served

    def _wait(self, provider: Provider, keys: ProviderKeys, retry: Retry, then: Callable[[], None]) -> None:
        """Has `then` called when the first fetch has ended, and begins it where it has not begun."""
        first = self._first.get(provider)
        if first is not None:
            first.waiting.append(then)
            return
        first = self._first[provider] = _FirstFetch(keys, retry, self._loop.time())
        first.waiting.append(then)
        self._try(provider, first)

    def _try(self, provider: Provider, first: _FirstFetch) -> None:
        def done(result: JsonWebKeys | ProviderError) -> None:
            if isinstance(result, JsonWebKeys):
                self._take(provider, first.keys)
                self._plan(provider, first.keys.fetched(result))
                self._end(provider, first, None)
                return
            now_s = self._loop.time()
            pause_s = None if self._is_closed else first.pause_s(result, now_s)
            if pause_s is None:
                self._end(provider, first, first.error or result)
            else:
                self._timers[provider] = self._loop.call_at(now_s + pause_s, self._try, provider, first)

        self._submit(first.keys, done)

    def _end(self, provider: Provider, first: _FirstFetch, error: ProviderError | None) -> None:
        """Calls back who waits: to them the provider has failed, and the next who asks has it fetched again."""
        del self._first[provider]
        if error is not None:
            self._failed[provider] = error
        try:
            for then in first.waiting:
                then()
        finally:
            self._failed.pop(provider, None)

    # ---- life

    def start(self) -> None:
        """Clients may come: keys are kept fresh from here on."""
        self._is_started = True
        for provider in self._keys:
            self._plan(provider, provider.times.refresh_ms)

    def close(self) -> None:
        """Nothing is fetched any more."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # ---- keeping keys fresh

    def _plan(self, provider: Provider, delay_ms: int | None) -> None:
        old = self._timers.pop(provider, None)
        if old is not None:
            old.cancel()
        if delay_ms is not None and not self._is_closed:
            at = self._loop.time() + delay_ms / 1000
            self._timers[provider] = self._loop.call_at(at, self._fetch, provider)

    def _fetch(self, provider: Provider) -> None:
        """Has keys fetched in a thread, unless they are being fetched or the broker stops."""
        if provider in self._fetching or self._is_closed or not self._is_started:
            return
        keys = self._keys[provider]

        def done(result: JsonWebKeys | ProviderError) -> None:
            self._fetching.discard(provider)
            if isinstance(result, ProviderError):
                self._plan(provider, keys.failed(result))
            else:
                self._plan(provider, keys.fetched(result))

        self._fetching.add(provider)
        self._submit(keys, done)

    def _submit(self, keys: ProviderKeys, done: Callable[[JsonWebKeys | ProviderError], None]) -> None:
        """Fetches in a thread; `done` is called on the loop."""
        results: list[JsonWebKeys | ProviderError] = []

        def work() -> None:
            try:
                results.append(keys.fetch_now())
            except ProviderError as error:
                results.append(error)

        def ended(error: BaseException | None) -> None:
            if error is not None:
                raise error
            done(results[0])

        self._runner.submit(work, ended)
