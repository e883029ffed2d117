from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.admin.errors import AdminError, BadFileError
from barnabas.cli.admin.settings import Address, ClientSettings, load_settings, parse_bootstrap
from barnabas.security.client_settings import NO_SECURITY
from barnabas.security.sasl_client import SaslLogin
from barnabas.security.settings import TlsSettings

DEFAULT = "localhost:9092"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def load(
    file: Path | None = None, server: str | None = None, controller: str | None = None
) -> ClientSettings:
    warnings: list[str] = []
    settings = load_settings(
        server=server, controller=controller, file=file, default=DEFAULT, warn=warnings.append
    )
    assert not warnings
    return settings


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2 ,", [("a", 1), ("b", 2)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers(text: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_bootstrap(text)) == addresses


@pytest.mark.parametrize(
    "text", ["", ",", "localhost", "localhost:", ":9092", "a:0", "a:65536", "a:x", "a:1,b"]
)
def test_an_invalid_server_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_bootstrap(text)


def test_an_address_is_printed_as_it_was_typed() -> None:
    assert [str(each) for each in parse_bootstrap("a:1,[::1]:2")] == ["a:1", "[::1]:2"]


def test_flags_override_the_file_and_the_file_the_default(file: Path) -> None:
    assert load().bootstrap == (Address("localhost", 9092),)
    file.write_text("bootstrap.servers=file:1\n")
    assert load(file).bootstrap == (Address("file", 1),)
    assert load(file, server="flag:2").bootstrap == (Address("flag", 2),)
    assert load(file, controller="flag:3") == ClientSettings((Address("flag", 3),), is_controller=True)


def test_the_properties_file(file: Path) -> None:
    file.write_text(
        "client.id = me\nrequest.timeout.ms=1\ndefault.api.timeout.ms=2\nretries=3\nretry.backoff.ms=4\n"
        "retry.backoff.max.ms=5\nsocket.connection.setup.timeout.ms=6\nsecurity.protocol=PLAINTEXT\n"
    )
    settings = load(file)
    assert settings == ClientSettings((Address("localhost", 9092),), False, "me", 1, 2, 4, 5, 3, 6)


def test_security_is_that_of_the_file(file: Path) -> None:
    assert load().security == NO_SECURITY
    file.write_text(
        "security.protocol=SASL_SSL\nssl.truststore.location=/t\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=PlainLoginModule required username="u" password="p";\n'
    )
    security = load(file).security
    assert (security.protocol, security.login) == ("SASL_SSL", SaslLogin("PLAIN", "u", "p"))
    assert security.tls == TlsSettings({"ssl.truststore.location": "/t"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS", "security.protocol=TLS must be one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL", "sasl.jaas.config must be set for SASL: .*Krb5LoginModule"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config must be set for SASL"),
    ],
)
def test_security_that_is_not_there_is_refused(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(AdminError, match=said):
        load(file)


def test_properties_without_effect_give_a_warning(file: Path) -> None:
    file.write_text("retry.backof.ms=4\n\nsasl.kerberos.kinit.cmd=k\n")
    warnings: list[str] = []
    load_settings(server=None, controller=None, file=file, default=DEFAULT, warn=warnings.append)
    assert warnings == [
        f"{file} line 1: retry.backof.ms has no effect here; did you mean retry.backoff.ms?",
        f"{file} line 3: sasl.kerberos.kinit.cmd has no effect here",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retries=many", "retries=many is not a number"),
        ("retries=-1", "retries=-1 is not a number"),
        ("bootstrap.servers=x", "'x' is not host:port"),
        ("bootstrap.servers=a:1\nbootstrap.controllers=b:1", "only one of"),
    ],
)
def test_invalid_values_are_named(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(AdminError, match=said):
        load(file)


def test_unreadable_files_are_reported(tmp_path: Path, file: Path) -> None:
    with pytest.raises(BadFileError, match="cannot be read"):
        load(tmp_path)
    file.write_text("a=b\nc=\\u12")
    with pytest.raises(BadFileError, match="line 2"):
        load(file)
