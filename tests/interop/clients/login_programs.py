"""Programs that log in as a test says: java/Logins.java with Java's clients of several versions, and go/logins.

Both answer the same lines (see there): `trip` is a transaction and what a group reads of it, `open` and `send` keep
connections, over which a session is renewed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conformance.kafka_jars import KAFKA_28, KAFKA_39, KAFKA_VERSION, require_clients, require_compiled
from tests.interop.clients.go import build_go
from tests.interop.clients.lines import LineClient
from tests.support.kdc import REALM, client_entry
from tests.support.sasl import PLAIN_MODULE, SCRAM_MODULE

JAVA = Path(__file__).parents[1] / "java" / "Logins.java"
SECRET = "changeit"
"""The password of files in PKCS12."""
TRIP = "0,1,2,3,4 committed"
"""What a trip answers: of two transactions the one that was not aborted, and the group's offset is committed."""


@dataclass(frozen=True)
class Login:
    """Where a client goes, and as whom."""

    servers: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: bool = False
    """Whether user and password are those of a delegation token."""
    ca: str = ""
    """A file with who signs the broker's certificate; TLS is used where it is given."""
    certificate: str = ""
    """A file with the client's own, and its key."""
    keytab: str = ""
    bearer: str = ""
    """A file with a token of an identity provider, of a client in Go, which reads it for each login."""
    more: Mapping[str, str] = field(default_factory=dict)
    """More properties of a Java client, which go before the others."""

    @property
    def protocol(self) -> str:
        """The value of security.protocol."""
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.ca else "PLAINTEXT")


class LoginProgram:
    """One program, for all tests of a module."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name = name
        self._client = LineClient(command)
        self._file = folder / "login"

    def write(self, login: Login) -> str:
        """The text of the file with the settings of a client."""
        raise NotImplementedError

    def trip(self, login: Login, topic: str) -> str:
        """Raises LineClientError, which says what the client says."""
        return self._client.ask("trip", self._written(login), topic)

    def open(self, login: Login, topic: str) -> None:
        """Opens connections, and sends a record by them. Raises LineClientError."""
        self._client.ask("open", self._written(login), topic)

    def send(self) -> None:
        """Sends one more. Raises LineClientError."""
        self._client.ask("send")

    def shut(self) -> None:
        """Closes the connections."""
        self._client.ask("shut")

    def close(self) -> None:
        """Ends the program."""
        self._client.close()

    def _written(self, login: Login) -> Path:
        self._file.write_text(self.write(login))
        return self._file


class JavaLogins(LoginProgram):
    """Java's clients, which read the certificate from a file in PKCS12 beside the other: 2.8 has no key in PEM that is
    not encrypted.
    """

    def write(self, login: Login) -> str:
        settings = {"bootstrap.servers": login.servers, "security.protocol": login.protocol}
        if login.ca:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.ca}
        if login.certificate:
            settings |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(Path(login.certificate).with_suffix(".p12")),
                "ssl.keystore.password": SECRET,
            }
        if login.mechanism:
            settings |= {"sasl.mechanism": login.mechanism, "sasl.jaas.config": java_entry(login)}
        return "".join(f"{key}={value}\n" for key, value in {**settings, **login.more}.items())


def java_entry(login: Login) -> str:
    """The value of sasl.jaas.config."""
    if login.mechanism == "GSSAPI":
        return client_entry(login.keytab, f"{login.user}@{REALM}")
    module = PLAIN_MODULE if login.mechanism == "PLAIN" else SCRAM_MODULE
    token = ' tokenauth="true"' if login.token else ""
    return f'{module} required username="{login.user}" password="{login.password}"{token};'


class GoLogins(LoginProgram):
    """franz-go and sarama."""

    def write(self, login: Login) -> str:
        return json.dumps(
            {
                "Servers": login.servers,
                "Mechanism": login.mechanism,
                "User": login.user,
                "Password": login.password,
                "Token": login.token,
                "CA": login.ca,
                "Certificate": login.certificate,
                "Bearer": login.bearer,
                "Keytab": login.keytab,
                "Krb5": os.environ.get("KRB5_CONFIG", ""),
                "Service": "kafka",
                "Realm": REALM,
            }
        )


JAVA_VERSIONS: Mapping[str, str] = {
    f"java-{version}": version for version in (KAFKA_28, KAFKA_39, KAFKA_VERSION)
}
GO = ("franz-go", "sarama")
PROGRAMS = [
    *(pytest.param(name, marks=pytest.mark.conformance) for name in JAVA_VERSIONS),
    *(pytest.param(name, marks=pytest.mark.slow) for name in GO),
]
"""The names of all programs."""


def login_program(name: str, folder: Path) -> LoginProgram:
    """Starts it. KRB5_CONFIG names the configuration of Kerberos. Skips the test where the program cannot be built."""
    if name not in JAVA_VERSIONS:
        return GoLogins(name, [str(build_go("logins")), name], folder)
    configuration = os.environ.get("KRB5_CONFIG")
    flags = [] if configuration is None else [f"-Djava.security.krb5.conf={configuration}"]
    return java_logins(JAVA_VERSIONS[name], folder, *flags)


def java_logins(version: str, folder: Path, *more: str) -> LoginProgram:
    """Starts a JVM with the clients of a version, and more flags. Skips the test where there is no Java."""
    classpath = require_compiled(JAVA, version, require_clients(version))
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF", *more]
    return JavaLogins(f"java-{version}", ["java", *flags, "-cp", classpath, JAVA.stem], folder)
