from __future__ import annotations

import asyncio
import logging
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.broker.network.listener_security import ListenerSecurities, ListenerSecurity
from barnabas.broker.network.transport import SocketTransport
from barnabas.broker.request import ANONYMOUS, ConnectionInfo, KafkaPrincipal
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener
from tests.broker.network.socket_harness import Address, Client, Run, ServerHarness, harness
from tests.support.certificates import Authority, Identity

CA = Authority()
BROKER = CA.issue("broker", ["localhost", "127.0.0.1"])
SSL_ADDRESS = Listener("SSL", "127.0.0.1", 0, "SSL")


def pem(identity: Identity) -> str:
    return identity.key_pem() + identity.chain_pem()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "broker": pem(BROKER),
        "alice": pem(CA.issue("alice")),
        "stranger": pem(Authority("Other").issue("alice")),
        "ca": CA.pem,
    }.items():
        (tmp_path / f"{name}.pem").write_text(text)
    return tmp_path


def config(folder: Path, **changes: str) -> BrokerConfig:
    """Names have __ for their dots."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{folder}/ca.pem",
        **{name.replace("__", "."): text for name, text in changes.items()},
    }
    return BrokerConfig.of(
        b"", environ={}, overrides=[f"{key}={text}" for key, text in settings.items() if text != "unset"]
    )


def securities(folder: Path, **changes: str) -> ListenerSecurities:
    return ListenerSecurities(config(folder, **changes), asyncio.get_running_loop(), InlineRunner())


def one(all_of_them: ListenerSecurities) -> ListenerSecurity:
    security = all_of_them.of(SSL_ADDRESS)
    assert security is not None
    return security


def client_tls(folder: Path, name: str | None = None, **attributes: object) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if name is not None:
        context.load_cert_chain(folder / f"{name}.pem")
    for attribute, value in attributes.items():
        setattr(context, attribute, value)
    return context


def server(all_of_them: ListenerSecurities) -> ServerHarness:
    all_of_them.start()
    address = Address.__new__(Address, name="SSL")
    return ServerHarness(address._replace(security_protocol="SSL"), security=all_of_them.of)


def test_requests_over_tls(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder)
        home = server(all_of_them)
        client = await Client.dials(home.ports["SSL"], "localhost", ssl=client_tls(folder))
        assert await client.asks("echo one") == b"one"
        client.send("echo " + "x" * 100_000, "echo two")
        assert await client.answer() == b"x" * 100_000
        assert await client.answer() == b"two"
        (info,) = home.server.connections()
        assert (info.principal, info.security_protocol) == (ANONYMOUS, "SSL")
        probe = one(all_of_them).probe
        assert list(probe.by_cipher.items()) == [(("TLS_AES_256_GCM_SHA384", "TLSv1.3"), 1)]
        assert (probe.successful_authentications, probe.failed_authentications) == (1, 0)
        await client.leaves()
        await home.server.drain(5)
        assert probe.by_cipher == {}
        all_of_them.close()

    run(dialogue())


@pytest.mark.parametrize(
    ("auth", "shows", "principal"),
    [
        ("required", "alice", KafkaPrincipal("alice")),
        ("requested", "alice", KafkaPrincipal("alice")),
        ("requested", None, ANONYMOUS),
        ("none", "alice", ANONYMOUS),
    ],
)
def test_who_a_client_is(
    run: Run, folder: Path, auth: str, shows: str | None, principal: KafkaPrincipal
) -> None:
    async def dialogue() -> None:
        all_of_them = securities(
            folder,
            **{
                "listener.name.ssl.ssl.client.auth": auth,
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            },
        )
        home = server(all_of_them)
        client = await Client.dials(home.ports["SSL"], "localhost", ssl=client_tls(folder, shows))
        assert await client.asks("echo one") == b"one"
        (info,) = home.server.connections()
        assert info.principal == principal
        await client.leaves()
        await home.server.drain(5)
        all_of_them.close()

    run(dialogue())


async def attempt(port: int, tls: ssl.SSLContext) -> None:
    """A request that is not answered."""
    client = await Client.dials(port, "localhost", ssl=tls)
    try:
        await client.asks("echo one")
    finally:
        await client.leaves()


@pytest.mark.parametrize(
    ("rules", "shows", "said"),
    [
        ("DEFAULT", None, "the peer shows no certificate, and ssl.client.auth=required"),
        ("DEFAULT", "stranger", "the certificate is signed by none that ssl.truststore.location trusts"),
        ("RULE:CN=bob/bob/", "alice", "no rule of ssl.principal.mapping.rules matches CN=alice"),
    ],
)
def test_who_is_not_let_in(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture, *, rules: str, shows: str | None, said: str
) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder, ssl__client__auth="required", ssl__principal__mapping__rules=rules)
        home = server(all_of_them)
        with caplog.at_level(logging.INFO, "barnabas.security"):
            for _ in range(2):
                with pytest.raises((OSError, EOFError)):
                    await attempt(home.ports["SSL"], client_tls(folder, shows))
            await home.server.drain(5)  # the client learns of it from a thread, before the loop does
        assert one(all_of_them).probe.failed_authentications == 2
        assert "listener SSL rejects 127.0.0.1:" in caplog.text
        assert caplog.text.count(said) == 1  # once for each address in a while
        all_of_them.close()

    run(dialogue())


def test_plain_clients_and_tls_clients_at_the_wrong_listener(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder)
        home = server(all_of_them)
        with caplog.at_level(logging.INFO, "barnabas.security"):
            client = await Client.dials(home.ports["SSL"])
            client.send("echo one")
            assert await client.sees_the_end()
            await client.leaves()
        assert "the client sends plain bytes to a TLS listener" in caplog.text
        await home.server.drain(5)
        all_of_them.close()
        async with harness() as plain:
            with pytest.raises((OSError, ssl.SSLError)):
                await Client.dials(plain.port, "localhost", ssl=client_tls(folder))
        assert "a TLS client is at a listener in plain text" in caplog.text

    run(dialogue())


def test_a_listener_without_its_protection_is_not_opened(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        from barnabas.broker.network.listeners import ListenError

        address = Address.__new__(Address, name="SSL")._replace(security_protocol="SSL")
        with pytest.raises(ListenError, match="SSL is not served"):
            ServerHarness(address)

        def refuses(_: Listener) -> None:
            raise ConfigError("ssl.keystore.location", "/x", "cannot be read")

        with pytest.raises(ListenError, match=r"ssl.keystore.location=/x cannot be read"):
            ServerHarness(address, security=refuses)

    run(dialogue())


async def test_a_plain_listener_has_no_protection(folder: Path) -> None:
    all_of_them = securities(folder, listeners="PLAINTEXT://:0", ssl__keystore__location="/missing")
    assert all_of_them.of(Listener("PLAINTEXT", None, 0)) is None
    assert all_of_them.by_name == {}
    all_of_them.start()
    assert all_of_them._timer is None
    all_of_them.close()


async def test_a_protected_listener_without_tls_has_a_plain_stream(folder: Path) -> None:
    import socket

    all_of_them = securities(folder, listeners="PLAINTEXT://:0")
    security = all_of_them.of(Listener("LOGINS", None, 0, "SASL_PLAINTEXT"))
    assert security is not None
    assert security.tls is None
    with socket.socket() as plain:
        transport = security.transport(asyncio.get_running_loop(), plain, INFO)
        assert isinstance(transport, SocketTransport)
    all_of_them.reconfigure()


INFO = ConnectionInfo(
    connection_id=1, listener_name="X", client_host="h", client_port=1, local_host="h", local_port=2
)


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
        (
            {"principal.builder.class": "my.Builder"},
            "principal.builder.class=my.Builder must be unset: it names a Java class",
        ),
        ({"ssl.engine.factory.class": "my.Factory"}, "ssl.engine.factory.class=my.Factory must be unset"),
    ],
)
async def test_what_cannot_protect_refuses_the_start(
    folder: Path, changes: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        securities(folder, **changes)


# ---- changes


async def test_a_file_that_changes_is_noticed_in_time(folder: Path) -> None:
    from tests.broker.fakes import ManualTimer

    loop = ManualTimer()
    all_of_them = ListenerSecurities(config(folder), loop, InlineRunner())  # type: ignore[arg-type]
    tls = one(all_of_them).tls
    assert tls is not None
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
    from tests.broker.held_runner import HeldRunner

    runner = HeldRunner()
    all_of_them = ListenerSecurities(config(folder), asyncio.get_running_loop(), runner)
    all_of_them.start()
    (folder / "broker.pem").write_text(pem(CA.issue("broker", ["localhost", "127.0.0.1"])))
    all_of_them.reconfigure()
    with pytest.raises(RuntimeError, match="bug"):
        runner.fail(RuntimeError("bug"))
    all_of_them.of(Listener("CLOSED", None, 0, "SASL_PLAINTEXT"))
    all_of_them.check(
        config(folder)
    )  # the file has another time, and a certificate that may replace the old one
    all_of_them.close()


async def test_a_file_is_not_watched_where_that_is_off(folder: Path) -> None:
    all_of_them = securities(folder, barnabas__tls__reload__interval__ms="0")
    all_of_them.start()
    assert all_of_them._timer is None


KEY = "listener.name.ssl.ssl.keystore.location"


async def test_settings_in_the_metadata_come_on_top_before_the_start(folder: Path) -> None:
    from barnabas.config.dynamic import apply_dynamic_settings

    settings = config(folder)
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    tls = one(all_of_them).tls
    assert tls is not None
    (folder / "other.pem").write_text(pem(CA.issue("other")))
    assert apply_dynamic_settings(settings, {}, {KEY: f"{folder}/other.pem"}) == []
    all_of_them.reconfigure()
    assert tls.reloads == 1  # another name needs no permission: no client is there yet
    assert apply_dynamic_settings(settings, {}, {KEY: "/missing"}) == []
    all_of_them.reconfigure()
    assert (tls.reloads, tls.reload_failures) == (1, 1)


async def test_a_change_is_checked_before_it_is_stored(folder: Path) -> None:
    from barnabas.config.dynamic import check_dynamic_settings

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


async def test_a_listener_that_is_added_needs_stores_that_can_be_used(folder: Path) -> None:
    from barnabas.config.dynamic import check_dynamic_settings

    settings = config(
        folder,
        listeners="PLAINTEXT://127.0.0.1:0",
        advertised__listeners="PLAINTEXT://127.0.0.1:9",
    )
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    all_of_them.start()
    both = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"}
    check_dynamic_settings(settings, both, {}, per_broker=True)
    with pytest.raises(ConfigError, match=r"listener.name.ssl.ssl.keystore.location=/missing cannot be read"):
        check_dynamic_settings(settings, {**both, KEY: "/missing"}, {}, per_broker=True)
    assert all_of_them.by_name == {}
    all_of_them.close()


async def test_of_an_open_listener_only_the_stores_change(folder: Path) -> None:
    from barnabas.config.dynamic import apply_dynamic_settings

    settings = config(folder, ssl__client__auth="required")
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    all_of_them.start()
    tls = one(all_of_them).tls
    assert tls is not None
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


async def test_a_listener_that_was_closed_is_forgotten(folder: Path) -> None:
    from barnabas.config.dynamic import apply_dynamic_settings

    settings = config(folder)
    all_of_them = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner())
    assert list(all_of_them.by_name) == ["SSL"]
    assert apply_dynamic_settings(settings, {}, {"listeners": "PLAINTEXT://127.0.0.1:0"}) == []
    all_of_them.reconfigure()
    assert list(all_of_them.by_name) == []


def test_a_resumed_session_brings_the_certificate(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder, ssl__client__auth="required")
        home = server(all_of_them)
        context = client_tls(folder, "alice", maximum_version=ssl.TLSVersion.TLSv1_2)
        names, reused = [], []
        session = None
        for _ in range(2):
            reader_writer = await asyncio.to_thread(_one_exchange, context, home.ports["SSL"], session)
            session, was_reused = reader_writer
            reused.append(was_reused)
            names.append(one(all_of_them).probe.successful_authentications)
        assert reused == [False, True]
        assert names == [1, 2]
        await home.server.drain(5)
        all_of_them.close()

    run(dialogue())


def _one_exchange(
    context: ssl.SSLContext, port: int, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    import socket

    from tests.broker.scripted import framed

    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as tls,
    ):
        tls.sendall(framed(b"echo one"))
        assert tls.recv(100)
        return tls.session, bool(tls.session_reused)


PLAIN_BROKER = """
import asyncio, sys
import barnabas.broker.startup.process
from barnabas.broker.network.listener_security import ListenerSecurities
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig

async def main():
    securities = ListenerSecurities(BrokerConfig.of(b""), asyncio.get_running_loop(), InlineRunner())
    securities.start()
    securities.reconfigure()
    securities.close()

asyncio.run(main())
print(sorted(name for name in sys.modules if name.startswith(("cryptography", "barnabas.security"))))
"""


def test_a_plain_broker_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN_BROKER], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
