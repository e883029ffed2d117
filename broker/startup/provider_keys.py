"""BrokerProviders: the keys of identity providers for all listeners of a broker, fetched and kept fresh.

One set for each URL, shared by the listeners that name it. The first fetch waits, with retries, since a start needs it;
once clients may come, fetches run in threads, and the pauses between them are timers of the event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from barnabas.broker.security.sasl.jwks import ProviderKeys
from barnabas.broker.security.sasl.oauthbearer_settings import Provider
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import TimerHandle
from barnabas.security.errors import ProviderError
from barnabas.security.identity_provider import DEFAULT_LIMITS, Limits, get
from barnabas.security.json_web_keys import JsonWebKeys
from barnabas.security.token_login import Retry

RUNNING_LIMITS: Final = Limits(2.0, 2.0, 2.0)
"""Of the one try for a listener that is added while clients are served, who wait for it."""


class BrokerProviders:
    """Those of one broker. Lives on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runner: BlockingRunner) -> None:
        """`runner` waits for providers."""
        self._loop = loop
        self._runner = runner
        self._keys: dict[Provider, ProviderKeys] = {}
        self._timers: dict[Provider, TimerHandle] = {}
        self._fetching: set[Provider] = set()
        self._is_started = False
        self._is_closed = False

    def find(self, provider: Provider, make_context: Callable[[], ssl.SSLContext] | None) -> ProviderKeys:
        """The keys of a provider. Those of a new one are fetched, which waits. Raises ProviderError."""
        found = self._keys.get(provider)
        if found is not None:
            return found
        limits = RUNNING_LIMITS if self._is_started else DEFAULT_LIMITS

        def fetch() -> bytes:
            return get(provider.url, make_context, DEFAULT_LIMITS if made else limits)

        made: list[ProviderKeys] = []
        keys = ProviderKeys(provider.url, fetch, provider.times, lambda: int(self._loop.time() * 1000))
        retry = Retry(provider.times.backoff_ms, 0 if self._is_started else provider.times.backoff_max_ms)
        next_ms = keys.fetched(retry.run(keys.fetch_now))
        made.append(keys)
        keys.wanted = lambda: self._loop.call_soon_threadsafe(self._fetch, provider)
        self._keys[provider] = keys
        if self._is_started:
            self._plan(provider, next_ms)
        return keys

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
        results: list[JsonWebKeys | ProviderError] = []

        def work() -> None:
            try:
                results.append(keys.fetch_now())
            except ProviderError as error:
                results.append(error)

        def done(error: BaseException | None) -> None:
            self._fetching.discard(provider)
            if error is not None:
                raise error
            result = results[0]
            if isinstance(result, ProviderError):
                self._plan(provider, keys.failed(result))
            else:
                self._plan(provider, keys.fetched(result))

        self._fetching.add(provider)
        self._runner.submit(work, done)
