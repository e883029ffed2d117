"""Both brokers with the same listeners, keys and users: PLAINTEXT, TLS with an ECDSA or an RSA key, and logins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.brokers import STOCK_JVM, AnyBroker
from bench.side_by_side.contestants import KAFKA, OURS, Contestant, ours
from bench.side_by_side.job import Settings
from tests.conformance.kafka_jars import KafkaMissingError, classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority, rsa_key
from tests.support.ports import held_ports
from tests.support.sasl import PLAIN_MODULE, SCRAM_MODULE

USER: Final = "alice"
"""Has ACLs, and no other rights."""
ROOT: Final = "root"
"""A super user."""
PASSWORD: Final = "bench-secret"
MECHANISM: Final = "SCRAM-SHA-512"
PROTOCOLS: Final[Mapping[str, str]] = {
    "ECDSA": "SSL",
    "RSA": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "TLSLOGIN": "SASL_SSL",
}
"""The listeners beside PLAINTEXT, and their protocols."""
_HOST: Final = "127.0.0.1"


class Secured(Contestant):
    """A broker with a listener of each kind, by which `settings` lets a client of librdkafka in."""

    def __init__(self, name: str, folder: Path, jars: str | None = None, root: Path | None = None) -> None:
        """`folder` holds what `write_stores` has written; a broker of Apache Kafka needs its `jars`."""
        super().__init__(name, self._made_broker, root)
        self._folder, self._jars = folder, jars
        self._ports: dict[str, int] = {}

    def _made_broker(self, directory: Path) -> AnyBroker:
        self._ports = dict(zip(PROTOCOLS, held_ports(len(PROTOCOLS)), strict=True))
        broker = (
            ours(directory)
            if self._jars is None
            else ApacheKafka(directory, self._jars, jvm=STOCK_JVM, overrides={})
        )
        assert isinstance(broker, BrokerProcess | ApacheKafka)
        listeners = {"PLAINTEXT": broker.port, **self._ports}
        protocols = {"PLAINTEXT": "PLAINTEXT", **PROTOCOLS}
        if isinstance(broker, ApacheKafka):
            protocols["CONTROLLER"] = "PLAINTEXT"
            broker.overrides["advertised.listeners"] = _joined(listeners)
            listeners = {**listeners, "CONTROLLER": broker.controller_port}
        broker.overrides |= {
            "listeners": _joined(listeners),
            "listener.security.protocol.map": ",".join(
                f"{name}:{value}" for name, value in protocols.items()
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ROOT}",
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._folder / "ecdsa.pem"),
            "listener.name.rsa.ssl.keystore.location": str(self._folder / "rsa.pem"),
            "listener.name.rsa.ssl.keystore.type": "PEM",
        }
        users = " ".join(f'user_{name}="{PASSWORD}"' for name in (USER, ROOT))
        for listener in ("login", "tlslogin"):
            prefix = f"listener.name.{listener}"
            broker.overrides |= {
                f"{prefix}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
                f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            }
        return broker

    def bootstrap(self, listener: str) -> str:
        """host:port of a listener."""
        return f"{_HOST}:{self._ports[listener]}"

    def settings(self, listener: str, user: str = USER) -> Settings:
        """What a client of librdkafka needs at this listener."""
        found: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap(listener),
            "security.protocol": PROTOCOLS[listener].lower(),
        }
        if PROTOCOLS[listener].endswith("SSL"):
            found |= {"ssl.ca.location": str(self.authority)}
        if PROTOCOLS[listener].startswith("SASL"):
            found |= {"sasl.mechanism": MECHANISM, "sasl.username": user, "sasl.password": PASSWORD}
        return found

    @property
    def authority(self) -> Path:
        """The certificate that vouches for the broker."""
        return self._folder / "ca.pem"


def _joined(listeners: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{_HOST}:{port}" for name, port in listeners.items())


def write_stores(folder: Path) -> None:
    """The keys of the brokers, and the certificate of their authority."""
    authority = Authority("Benchmark CA")
    (folder / "ca.pem").write_text(authority.pem)
    for name, key in (("ecdsa", None), ("rsa", rsa_key())):
        identity = authority.issue("broker", ["localhost", _HOST], key=key)
        (folder / f"{name}.pem").write_text(identity.key_pem() + identity.chain_pem())


def contestants(folder: Path, *, with_kafka: bool, root: Path | None = None) -> list[Secured]:
    """Ours first; says why Apache Kafka is not there. Writes the stores."""
    write_stores(folder)
    found = [Secured(OURS, folder, root=root)]
    if with_kafka:
        try:
            found.append(Secured(KAFKA, folder, classpath(), root))
        except KafkaMissingError as error:
            print(f"Apache Kafka is not measured: {error}")
    return found
