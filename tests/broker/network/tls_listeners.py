"""Listeners of TLS: a folder of certificates, the configuration, and clients."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from barnabas.broker.network.listener_security import ListenerSecurity
from barnabas.broker.security.tls_listener import TlsListener
from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from tests.broker.network.socket_harness import Address, ServerHarness
from tests.support.certificates import Authority, Identity

CA = Authority()
BROKER = CA.issue("broker", ["localhost", "127.0.0.1"])
SSL_ADDRESS = Listener("SSL", "127.0.0.1", 0, "SSL")


def pem(identity: Identity) -> str:
    return identity.key_pem() + identity.chain_pem()


def write_certificates(folder: Path) -> None:
    for name, text in {
        "broker": pem(BROKER),
        "alice": pem(CA.issue("alice")),
        "stranger": pem(Authority("Other").issue("alice")),
        "ca": CA.pem,
    }.items():
        (folder / f"{name}.pem").write_text(text)


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
    return ListenerSecurities(
        config(folder, **changes), asyncio.get_running_loop(), InlineRunner(), environ={}
    )


def one(all_of_them: ListenerSecurities) -> ListenerSecurity:
    return all_of_them(SSL_ADDRESS)


def stores_of(all_of_them: ListenerSecurities) -> TlsListener:
    tls = one(all_of_them).tls
    assert tls is not None
    return tls.stores


def client_tls(folder: Path, name: str | None = None, **attributes: object) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if name is not None:
        context.load_cert_chain(folder / f"{name}.pem")
    for attribute, value in attributes.items():
        setattr(context, attribute, value)
    return context


def server(
    all_of_them: ListenerSecurities, name: str = "SSL", security_protocol: str = "SSL", **options: int
) -> ServerHarness:
    address = Address(name=name, security_protocol=security_protocol)
    home = ServerHarness(address, secure=all_of_them, **options)
    all_of_them.start()
    return home
