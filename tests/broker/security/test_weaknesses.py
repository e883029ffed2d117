"""Each rule about what is weak, by a configuration that has it and one that has not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.security.weaknesses import (
    DAY_S,
    SecretFile,
    Store,
    View,
    is_public,
    is_secured,
    weaknesses,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.security.token_settings import UNSECURED_VALIDATOR_HANDLER, VALIDATOR_HANDLER

STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SECURE:SASL_SSL,SSL:SSL,CONTROLLER:SSL"
NOW_S = 1_800_000_000.0
"""2027-01-15."""


def config_of(*lines: str) -> BrokerConfig:
    return BrokerConfig.of("\n".join([MAP, *lines]).encode(), file_name="/etc/f")


def told(
    *lines: str,
    stores: list[Store] | None = None,
    files: list[SecretFile] | None = None,
    public: Callable[[str], bool] = lambda _: False,
) -> list[str]:
    return [
        str(each) for each in weaknesses(View(config_of(*lines), NOW_S, stores or [], files or [], public))
    ]


def local(listener: str, *lines: str) -> list[str]:
    """What is said beside the lack of an authorizer, of a broker whose HTTP port is closed."""
    return told(f"listeners={listener}", STANDARD, "barnabas.http.port=-1", *lines)


PLAIN = "sasl.enabled.mechanisms=PLAIN"


def test_what_protects_nothing_is_not_weak() -> None:
    assert told("listeners=PLAINTEXT://:9092", "barnabas.http.host=") == []
    assert not is_secured(config_of("listeners=PLAINTEXT://:9092"))
    assert is_secured(config_of("listeners=SSL://:9092"))
    assert is_secured(config_of(STANDARD))


@pytest.mark.parametrize(
    ("listener", "mechanisms", "text"),
    [
        ("SASL://:9093", "PLAIN", "takes passwords (SASL mechanism PLAIN)"),
        ("SASL://10.0.0.1:9093", "SCRAM-SHA-256,PLAIN", "takes passwords (SASL mechanism PLAIN)"),
        ("SASL://10.0.0.1:9093", "OAUTHBEARER,SCRAM-SHA-256", "takes tokens (SASL mechanism OAUTHBEARER)"),
        (
            "SASL://10.0.0.1:9093",
            "SCRAM-SHA-256",
            "is not encrypted: whoever is on the way can read and change",
        ),
        ("SASL://localhost:9093", "PLAIN", None),
        ("SASL://[::1]:9093", "PLAIN", None),
        ("SASL://127.8.9.1:9093", "PLAIN", None),
        ("SECURE://:9093", "PLAIN", None),
        ("SSL://:9093", "PLAIN", None),
    ],
)
def test_logins_that_can_be_overheard(listener: str, mechanisms: str, text: str | None) -> None:
    found = local(listener, f"sasl.enabled.mechanisms={mechanisms}")
    if text is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(f"/etc/f line 2: listeners opens listener SASL, which {text}")


@pytest.mark.parametrize(
    ("listener", "key", "is_told"),
    [
        ("SASL://:9093", "a key", True),
        ("SASL://localhost:9093", "a key", False),
        ("SECURE://:9093", "a key", False),
        ("SASL://:9093", "", False),
    ],
)
def test_secrets_of_tokens_that_can_be_overheard(listener: str, key: str, is_told: bool) -> None:
    found = local(
        listener, "sasl.enabled.mechanisms=SCRAM-SHA-256", f"delegation.token.secret.key={key}" if key else ""
    )
    assert len([line for line in found if "secrets of delegation tokens" in line]) == int(is_told)


def test_an_open_listener_beside_what_is_protected() -> None:
    (line,) = local("PLAINTEXT://:9092")
    assert "listeners opens listener PLAINTEXT to other hosts beside what is protected" in line
    assert local("PLAINTEXT://localhost:9092") == []
    (line, _) = told("listeners=PLAINTEXT://kafka.example:9092,SECURE://:9093", PLAIN)
    assert "listener PLAINTEXT to other hosts" in line


def test_logins_without_an_authorizer() -> None:
    (line,) = told("listeners=SASL://localhost:9093,PLAINTEXT://localhost:9092", PLAIN)
    assert line == (
        "authorizer.class.name names no authorizer: clients of listener SASL have to log in, and may do everything then"
    )


def test_certificates_that_are_not_asked_for() -> None:
    (line,) = local("SECURE://:9093", PLAIN, "ssl.client.auth=required")
    assert line.startswith("/etc/f line 6: ssl.client.auth is required for listeners of SSL alone: ")
    assert line.endswith("unless listener.name.secure.ssl.client.auth asks for one")
    assert local("SSL://:9093", "ssl.client.auth=required") == []
    assert local("SECURE://:9093", PLAIN, "listener.name.secure.ssl.client.auth=required") == []


MEMBER = (
    "process.roles=broker",
    "node.id=1",
    "controller.quorum.voters=9@localhost:9999",
    "controller.listener.names=CONTROLLER",
    "inter.broker.listener.name=SSL",
)


@pytest.mark.parametrize(
    ("line", "peers"),
    [
        ("ssl.endpoint.identification.algorithm=", ["CONTROLLER", "SSL"]),
        ("listener.name.ssl.ssl.endpoint.identification.algorithm=", ["SSL"]),
        ("listener.name.controller.ssl.endpoint.identification.algorithm=", ["CONTROLLER"]),
        ("ssl.endpoint.identification.algorithm=https", []),
    ],
)
def test_names_that_peers_do_not_check(line: str, peers: list[str]) -> None:
    found = local("SSL://:9093", *MEMBER, line)
    assert [each.rpartition(" ")[2] for each in found] == peers
    assert all("takes any certificate that its trust store vouches for" in each for each in found)


def test_a_broker_that_is_alone_has_no_peers() -> None:
    assert local("SSL://:9093", "ssl.endpoint.identification.algorithm=") == []


def test_passwords_and_tokens_that_can_be_overheard() -> None:
    passwords, tokens = local("SASL://:9093", "sasl.enabled.mechanisms=OAUTHBEARER,PLAIN")
    assert passwords.endswith("whoever is on the way can read them")
    assert tokens.endswith("whoever is on the way can use them until they end")


OAUTHBEARER = "sasl.enabled.mechanisms=OAUTHBEARER"
HANDLER = "listener.name.secure.oauthbearer.sasl.server.callback.handler.class"
SIGNED = f"{HANDLER}={VALIDATOR_HANDLER}"


@pytest.mark.parametrize("handler", ["", f"{HANDLER}={UNSECURED_VALIDATOR_HANDLER}"])
@pytest.mark.parametrize("prefix", ["", "listener.name.secure.oauthbearer."])
def test_tokens_that_nobody_has_signed(prefix: str, handler: str) -> None:
    key = f"{prefix}barnabas.oauthbearer.allow.unsecured"
    (line,) = local("SECURE://:9093", OAUTHBEARER, handler, f"{key}=true")
    assert f"{key} has listener SECURE take tokens of OAUTHBEARER that nobody has signed" in line
    assert local("SECURE://:9093", OAUTHBEARER, handler, f"{key}=false") == []
    assert local("SECURE://:9093", PLAIN, handler, f"{key}=true") == []


def test_where_tokens_are_checked_it_is_not_weak_to_allow_others() -> None:
    allowed = "barnabas.oauthbearer.allow.unsecured=true"
    assert local("SECURE://:9093", OAUTHBEARER, f"{HANDLER}=python:a:B", allowed) == []
    assert local("SECURE://:9093", OAUTHBEARER, SIGNED, "sasl.oauthbearer.expected.issuer=x", allowed) == []


def test_tokens_of_every_issuer() -> None:
    url = "sasl.oauthbearer.jwks.endpoint.url=https://login.example/keys"
    (line,) = local("SECURE://:9093", OAUTHBEARER, SIGNED, url)
    assert line == (
        "sasl.oauthbearer.expected.issuer names none: listener SECURE takes tokens of every issuer whose keys are at "
        "https://login.example/keys"
    )
    for prefix in ("", "listener.name.secure.oauthbearer."):
        issuer = f"{prefix}sasl.oauthbearer.expected.issuer=https://login.example"
        assert local("SECURE://:9093", OAUTHBEARER, SIGNED, url, issuer) == []


@pytest.mark.parametrize(
    ("url", "is_weak"),
    [
        ("http://login.example:8080/keys", True),
        ("HTTP://192.0.2.1/keys", True),
        ("https://login.example/keys", False),
        ("http://localhost:8080/keys", False),
        ("http://127.0.0.1/keys", False),
        ("http://[::1]/keys", False),
        ("file:///etc/keys", False),
    ],
)
def test_keys_that_can_be_replaced_on_the_way(url: str, is_weak: bool) -> None:
    issuer = "sasl.oauthbearer.expected.issuer=x"
    for prefix in ("", "listener.name.secure.oauthbearer."):
        key = f"{prefix}sasl.oauthbearer.jwks.endpoint.url"
        found = local("SECURE://:9093", OAUTHBEARER, SIGNED, issuer, f"{key}={url}")
        assert len(found) == int(is_weak)
        assert not found or f"{key} asks the identity provider at " in found[0]
    assert local("SECURE://:9093", OAUTHBEARER, f"{HANDLER}=python:a:B", f"{key}={url}") == []


@pytest.mark.parametrize(
    ("controllers", "brokers", "peers"),
    [
        ("OAUTHBEARER", "PLAIN", ["CONTROLLER"]),
        ("PLAIN", "OAUTHBEARER", ["SECURE"]),
        ("OAUTHBEARER", "OAUTHBEARER", ["CONTROLLER", "SECURE"]),
        ("PLAIN", "PLAIN", []),
    ],
)
def test_what_a_member_proves_itself_by_can_be_overheard(
    controllers: str, brokers: str, peers: list[str]
) -> None:
    member = [
        line for line in MEMBER if not line.startswith(("listener.security.protocol.map", "inter.broker"))
    ]
    more = (
        "listener.security.protocol.map=SECURE:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name=SECURE",
        "sasl.enabled.mechanisms=PLAIN",
        f"sasl.mechanism.controller.protocol={controllers}",
        f"sasl.mechanism.inter.broker.protocol={brokers}",
    )
    key = "sasl.oauthbearer.token.endpoint.url"
    found = local("SECURE://:9093", *member, *more, f"{key}=http://login.example/token")
    assert [each.rpartition(" ")[2] for each in found] == peers
    assert all(
        f"{key} asks the identity provider at login.example over a connection" in each for each in found
    )
    assert local("SECURE://:9093", *member, *more, f"{key}=https://login.example/token") == []


def test_everything_that_no_acl_covers() -> None:
    key = "allow.everyone.if.no.acl.found=true"
    (line,) = local("SECURE://:9093", key)
    assert line == (
        "/etc/f line 5: allow.everyone.if.no.acl.found leaves everything that no ACL covers open to all clients"
    )
    assert told("listeners=SSL://:9093", key) == []


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ("User:alice", None),
        ("User:CN=alice", None),
        ("User:CN=alice,OU=x y,O=acme,C=DE;User:admin", None),
        ("User:CN=a\\, b,1.2.840.113549.1.9.1=#1605", None),
        ("User:a=b, c", None),
        ("User:CN=alice, O=acme", "no spaces around its commas"),
        ("User:CN = alice,O = acme", "no spaces around its commas"),
        ("User:cn=alice,O=acme", "has no cn; its attributes are C, CN, DC, L, O,"),
        ("User:CN=alice,emailAddress=a@b", "has no emailAddress"),
        ("User:/C=DE/CN=alice", "has commas, as CN=alice,O=acme"),
        ("User:alice,User:bob", "principals are separated by semicolons"),
        ("User:CN=alice, User:CN=bob", "principals are separated by semicolons"),
        ("User: alice", "begins with a space"),
        ('User:"CN=alice"', "quotes are part of a name"),
    ],
)
def test_super_users_that_no_client_is(users: str, why: str | None) -> None:
    found = local("SECURE://:9093", f"super.users={users}".replace("\\", "\\\\"))
    assert len(found) == (0 if why is None else 1), found
    if why is not None:
        assert why in found[0]
        assert "which is likely to match nobody" in found[0]


def test_names_that_rules_have_made_are_left_alone() -> None:
    rule = "ssl.principal.mapping.rules=RULE:^(.*)$/$1/L"
    assert local("SSL://:9093", "super.users=User:cn=alice,o=acme", rule) == []
    assert len(local("SSL://:9093", "super.users=User: cn=alice", rule)) == 1


def test_super_users_without_an_authorizer() -> None:
    line = told("listeners=SSL://:9093", "super.users=User:alice")
    assert line == ["/etc/f line 3: super.users has no effect: authorizer.class.name names no authorizer"]


HTTP_JAAS = "barnabas.http.sasl.jaas.config=x"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "barnabas.http.host opens the HTTP port to other hosts, and it asks for no login"),
        (["barnabas.http.security.protocol=SSL"], "barnabas.http.host opens the HTTP port to other hosts"),
        (["barnabas.http.security.protocol=SSL", "barnabas.http.ssl.client.auth=required"], None),
        (["barnabas.http.security.protocol=SASL_SSL", HTTP_JAAS], None),
        (
            ["barnabas.http.security.protocol=SASL_PLAINTEXT", HTTP_JAAS],
            "has the HTTP port take passwords over",
        ),
        (["barnabas.http.host=127.0.0.1"], None),
        (["barnabas.http.port=-1"], None),
    ],
)
def test_the_http_port(lines: list[str], text: str | None) -> None:
    found = told("listeners=SSL://:9093", "barnabas.http.host=0.0.0.0", *lines)
    assert len(found) == (0 if text is None else 1), found
    if text is not None:
        assert text in found[0]


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-1.0, "has a certificate of listener SSL that has expired on 2027-01-14: clients refuse it"),
        (0.0, "that has expired on 2027-01-15"),
        (29.5, "that expires on 2027-02-13, in 29 days"),
        (30.0, None),
    ],
)
def test_certificates_that_expire(days: float, text: str | None) -> None:
    store = Store("SSL", "ssl.keystore.location", "f line 7", NOW_S + days * DAY_S, NOW_S + 1)
    found = told("listeners=SSL://:9093", stores=[store])
    assert len(found) == (0 if text is None else 1)
    if text is not None:
        assert found[0].startswith("f line 7: ssl.keystore.location ")
        assert text in found[0]


def test_trusted_certificates_that_have_expired() -> None:
    store = Store("SSL", "ssl.keystore.location", "", NOW_S + 99 * DAY_S, NOW_S)
    (line,) = told("listeners=SSL://:9093", stores=[store])
    assert line == (
        "ssl.keystore.location is of listener SSL, which trusts no certificate that has not expired"
    )


# ---- files


def everything(_: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("ssl.keystore.password=x", "/etc/f"),
        ("listener.name.ssl.ssl.key.password=x", "/etc/f"),
        ('listener.name.sasl.plain.sasl.jaas.config=M required user_a="b";', "/etc/f"),
        ("barnabas.http.ssl.key.password=x", "/etc/f"),
        ("ssl.keystore.location=/k.pem", "/k.pem"),
        ("listener.name.ssl.ssl.keystore.location=/k.pem", "/k.pem"),
        ("barnabas.http.ssl.keystore.location=/k.pem", "/k.pem"),
        ("listener.name.sasl.scram-sha-256.sasl.jaas.config=M required;", None),
        ("ssl.keystore.password=", None),
        ("ssl.truststore.certificates=x", None),
        ("ssl.keystore.certificate.chain=x", None),
        ("ssl.truststore.location=/t.pem", None),
        ("sasl.oauthbearer.assertion.private.key.file=/a.pem", "/a.pem"),
        ("num.partitions=2", None),
        ("org.example.password=x", None),
    ],
)
def test_secrets_that_every_user_can_read(line: str, path: str | None) -> None:
    lines = ["listeners=SSL://:9093", line]
    if line.startswith("barnabas"):
        lines.append("barnabas.http.security.protocol=SSL")
    assert told(*lines) == []
    found = told(*lines, public=everything)
    assert len(found) == (0 if path is None else 1), found
    if path is not None:
        key = line.partition("=")[0]
        assert found[0].startswith(f"/etc/f line 3: {key} ")
        assert found[0].endswith(f" {path}, which every user of this machine can read: chmod o-r")


def test_a_file_is_named_once() -> None:
    files = [SecretFile("/jaas", "names passwords in", "barnabas.jaas.config.file", "KAFKA_OPTS")] * 2
    found = told(
        "listeners=SSL://:9093",
        "ssl.keystore.password=x",
        "ssl.key.password=x",
        files=files,
        public=everything,
    )
    assert [line.partition(" names")[0].partition(" is a")[0] for line in found] == [
        "KAFKA_OPTS: barnabas.jaas.config.file",
        "/etc/f line 4: ssl.key.password",
    ]


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["log.dir=/one"], ("/etc/f line 6: log.dir", "/one")),
        (["log.dirs=/one/,/two"], ("/etc/f line 6: log.dirs", "/one")),
        (["log.dirs=/one", "metadata.log.dir=/meta"], ("/etc/f line 7: metadata.log.dir", "/meta")),
        (["log.dir=/one", "listener.name.sasl.sasl.enabled.mechanisms=PLAIN"], None),
    ],
)
def test_keys_of_users_that_every_user_of_the_machine_can_read(
    lines: list[str], place: tuple[str, str] | None
) -> None:
    def said(public: Callable[[str], bool]) -> list[str]:
        login = ["listeners=SASL://127.0.0.1:9092", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512"]
        return [line for line in told(*login, "", STANDARD, *lines, public=public) if "SCRAM" in line]

    assert said(lambda _: False) == []
    if place is None:
        assert said(everything) == []
        return
    setting, directory = place
    metadata, first = f"{directory}/__cluster_metadata-0", f"{directory}/bootstrap.checkpoint"
    text = f"{setting} has the keys of SCRAM's users in {{}}, which every user of this machine can read: chmod o-rx "
    assert said(everything) == [text.format(f"{metadata} and {first}") + directory]
    assert said(first.__eq__) == [text.format(first) + directory]


def test_a_setting_from_elsewhere_is_in_no_file() -> None:
    config = BrokerConfig.of(
        b"listeners=SSL://:9093",
        environ={"KAFKA_SSL_KEYSTORE_PASSWORD": "x"},
        overrides=["ssl.key.password=y"],
    )
    assert weaknesses(View(config, NOW_S, is_public=everything)) == []


def test_who_may_read_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    file.touch()
    link = folder / "link"
    link.symlink_to(file)
    above = [each for each in folder.parents if not each.stat().st_mode & 0o001]
    file.chmod(0o644)
    for path in (file, link):
        assert is_public(str(path)) is (not above)
    for mode in (0o600, 0o640):
        file.chmod(mode)
        assert not is_public(str(file))
    assert is_public("/etc/passwd")
    assert not is_public(str(folder / "none"))
    assert not is_public("\0")
