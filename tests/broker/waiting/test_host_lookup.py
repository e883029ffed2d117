"""Host names are resolved off the event loop, in limited number."""

from __future__ import annotations

import asyncio
import threading

import pytest

from barnabas.broker.pending import Pending
from barnabas.broker.waiting.host_lookup import MAX_NAMES, HostLookup, is_address, java_address, resolves


async def result(pending: Pending[frozenset[str]]) -> frozenset[str]:
    future: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
    pending.add_done_callback(future.set_result)
    return await asyncio.wait_for(future, 30)


async def test_no_names_are_answered_at_once() -> None:
    lookup = HostLookup(asyncio.get_running_loop(), lambda name: False)
    assert lookup.known([]).done


async def test_names_are_resolved_off_the_loop() -> None:
    asked = threading.Event()
    go_on = threading.Event()

    def resolve(name: str) -> bool:
        asked.set()
        assert go_on.wait(30)
        return name == "known"

    lookup = HostLookup(asyncio.get_running_loop(), resolve)
    first, second = lookup.known(["known", "unknown", "known"]), lookup.known(["unknown"])
    await asyncio.to_thread(asked.wait, 30)
    assert not first.done
    go_on.set()
    assert await result(first) == {"known"}
    assert await result(second) == frozenset()


async def test_the_number_of_names_is_limited() -> None:
    lookup = HostLookup(asyncio.get_running_loop(), lambda name: True)
    known = await result(lookup.known(str(number) for number in range(MAX_NAMES + 5)))
    assert len(known) == MAX_NAMES


def test_the_system_resolver_is_used() -> None:
    assert resolves("localhost")
    assert not resolves("a name\0that cannot be")
    assert not resolves("x" * 300)


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "::ffff:10.0.0.1"])
def test_an_address_needs_no_look_up(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize("text", ["localhost", "", "127.0.0.1:9092", "[::1]", "1.2.3"])
def test_anything_else_may_be_a_name(text: str) -> None:
    assert not is_address(text)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a0", "2001:db8:0:0:0:0:0:a0"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("a name", "a name"),
    ],
)
def test_addresses_are_written_as_java_writes_them(host: str, shown: str) -> None:
    assert java_address(host) == shown
