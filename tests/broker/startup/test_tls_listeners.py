"""TLS of listeners from a configuration, and certificates that are replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.dynamic import apply_dynamic_settings, check_dynamic_settings
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.network.tls_listeners import (
    BROKER,
    CA,
    config,
    pem,
    securities,
    stores_of,
    write_certificates,
)
from tests.support.certificates import Authority

KEY = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificates(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ssl.keystore.location": "/x"}, "--override: ssl.keystore.location=/x cannot be read"),
        (
            {"listener.name.ssl.ssl.protocol": "SSLv3"},
            "--override: listener.name.ssl.ssl.protocol=SSLv3 must be",
        ),
        ({"ssl.principal.mapping.rules": "RULE:"}, "ssl.principal.mapping.rules=RULE: must be of DEFAULT"),
        (
            {"ssl.keystore.location": "unset", "ssl.keystore.type": "unset"},
            "ssl.keystore.location must be set",
        ),
    ],
)
async def test_what_cannot_protect_refuses_the_start(
    folder: Path, changes: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        securities(folder, **changes)


async def test_a_file_that_changes_is_noticed_in_time(folder: Path) -> None:
    loop = ManualTimer()
    all_of_them = ListenerSecurities(config(folder), loop, InlineRunner())  # type: ignore[arg-type]
    tls = stores_of(all_of_them)
    all_of_them.start()
    before = tls.context
    loop.advance(60)
    assert tls.context is before
    (folder / "broker.pem").write_text(pem(CA.issue("broker", ["localhost", "127.0.0.1"])))
    loop.advance(60)
    assert tls.context is not before
    (folder / "broker.pem").write_text("damaged")
    now = tls.context
    loop.advance(60)
    assert (tls.context, tls.reloads, tls.reload_failures) == (now, 1, 1)
    (folder / "broker.pem").write_text(pem(CA.issue("other")))
    loop.advance(60)
    assert (tls.context, tls.reload_failures) == (now, 2)
    all_of_them.close()
    (folder / "broker.pem").write_text(pem(BROKER))
    loop.advance(60)
    assert tls.context is now


async def test_a_bug_in_reading_stores_is_raised(folder: Path) -> None:
    runner = HeldRunner()
    all_of_them = ListenerSecurities(config(folder), asyncio.get_running_loop(), runner)
    all_of_them.start()
    (folder / "broker.pem").write_text(pem(CA.issue("broker", ["localhost", "127.0.0.1"])))
    all_of_them.reconfigure()
    with pytest.raises(RuntimeError, match="bug"):
        runner.fail(RuntimeError("bug"))
    all_of_them.check(
        config(folder)
    )  # the file has another time, and a certificate that may replace the old one
    all_of_them.close()


async def test_settings_in_the_metadata_come_on_top_before_the_start(folder: Path) -> None:
    settings = config(folder)
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    tls = stores_of(all_of_them)
    (folder / "other.pem").write_text(pem(CA.issue("other")))
    assert apply_dynamic_settings(settings, {}, {KEY: f"{folder}/other.pem"}) == []
    all_of_them.reconfigure()
    assert tls.reloads == 1  # another name needs no permission: no client is there yet
    assert apply_dynamic_settings(settings, {}, {KEY: "/missing"}) == []
    all_of_them.reconfigure()
    assert (tls.reloads, tls.reload_failures) == (1, 1)


async def test_a_change_is_checked_before_it_is_stored(folder: Path) -> None:
    settings = config(folder)
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    all_of_them.start()
    (folder / "other.pem").write_text(pem(CA.issue("other", ["localhost", "127.0.0.1"])))

    def check(path: str) -> None:
        check_dynamic_settings(settings, {KEY: path}, {}, per_broker=True)

    check(f"{folder}/broker.pem")
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        check("/missing")
    assert caught.value.key == KEY
    with pytest.raises(ConfigError) as caught:
        check(f"{folder}/other.pem")
    assert "SSLFactory failed: Keystore DistinguishedName does not match" in caught.value.answer
    all_of_them.close()


async def test_of_an_open_listener_only_the_stores_change(folder: Path) -> None:
    settings = config(folder, ssl__client__auth="required")
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    all_of_them.start()
    tls = stores_of(all_of_them)
    assert apply_dynamic_settings(settings, {}, {"ssl.client.auth": "none"}) == []
    all_of_them.reconfigure()
    assert (tls.settings["ssl.client.auth"], tls.reloads) == ("required", 0)
    (folder / "more.pem").write_text(CA.pem + Authority("More").pem)
    trust = {"listener.name.ssl.ssl.truststore.location": f"{folder}/more.pem"}
    assert apply_dynamic_settings(settings, {}, {"ssl.client.auth": "none", **trust}) == []
    all_of_them.reconfigure()
    assert (tls.settings["ssl.client.auth"], tls.reloads) == ("required", 1)
    assert len(tls.context.get_ca_certs()) == 2
    all_of_them.close()


async def test_handshakes_are_shared_by_all_listeners_and_end_with_them(folder: Path) -> None:
    all_of_them = securities(folder, listeners="SSL://127.0.0.1:0,OTHER://127.0.0.1:0", **MAP)
    parts = [security.tls for security in all_of_them.by_name.values()]
    first, second = (part.handshakes() for part in parts if part is not None)
    assert first is second
    assert first.timeout_ms == 30_000
    all_of_them.close()


MAP = {"listener__security__protocol__map": "SSL:SSL,OTHER:SSL"}
