"""Names of certificates, mapping rules, regular expressions and stores, beside the JVM."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.security.der import DerError
from barnabas.security.distinguished_names import rfc2253_name
from barnabas.security.errors import SettingError
from barnabas.security.java_regex import JavaRegexError, translate
from barnabas.security.kerberos_rules import KerberosShortNamer
from barnabas.security.mapping_rules import NoRuleMatchesError, PrincipalMapper
from barnabas.security.settings import TlsSettings
from barnabas.security.stores import Stores, load_stores
from tests.conformance.java_security import JavaSecurity
from tests.conformance.kafka_jars import require_classpath
from tests.security.test_der import encoded
from tests.support.certificates import Authority

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

SECRET = "changeit"


@pytest.fixture(scope="module")
def java() -> Iterator[JavaSecurity]:
    running = JavaSecurity()
    yield running
    running.close()


# ---- names

KINDS = [
    bytes.fromhex(each)
    for each in (
        "550403",  # CN
        "550406",  # C
        "550407",
        "550408",
        "550409",
        "55040a",
        "55040b",
        "550405",  # serialNumber, which has no keyword in RFC 2253
        "2a864886f70d010901",  # emailAddress
        "0992268993f22c640101",  # UID
        "0992268993f22c640119",  # DC
    )
]
LETTERS = st.text(alphabet='ab ,=+<>#;"\\\r\n\t0Zéß€', max_size=8)


@st.composite
def attributes(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(KINDS))
    tag = draw(st.sampled_from([0x0C, 0x13, 0x16]))
    text = draw(LETTERS)
    if tag != 0x0C:
        text = text.encode("ascii", "ignore").decode()
    return encoded(0x30, encoded(0x06, kind) + encoded(tag, text.encode()))


@st.composite
def names(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(st.lists(attributes(), min_size=1, max_size=2), max_size=4))
    return encoded(0x30, b"".join(encoded(0x31, b"".join(sorted(part))) for part in parts))


@settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names())
def test_names_are_written_as_java_writes_them(java: JavaSecurity, name: bytes) -> None:
    theirs = java.name(name)
    try:
        ours = rfc2253_name(name)
    except DerError:
        assert theirs is None
    else:
        assert theirs in {ours, None}


@pytest.mark.parametrize("tag", [0x14, 0x1B, 0x1C, 0x1E, 0x03, 0x02])
def test_other_kinds_of_values(java: JavaSecurity, tag: int) -> None:
    value = {0x1E: "aé".encode("utf-16-be"), 0x1C: "aé".encode("utf-32-be"), 0x02: b"\x05", 0x03: b"\x00a"}
    attribute = encoded(0x30, encoded(0x06, KINDS[0]) + encoded(tag, value.get(tag, b"ab")))
    name = encoded(0x30, encoded(0x31, attribute))
    assert rfc2253_name(name) == java.name(name)


# ---- mapping rules

NAMES = ["CN=duke,OU=ServiceUsers,O=Org,C=US", "CN=a\\,b,O=x y", "CN=Zoë", "", "CN=d/u", "x\ny"]
PATTERNS = st.sampled_from(
    [
        "^CN=(.*?),.*$",
        "(.*)",
        "^(.*?)=(.*?),(.*)$",
        "CN=(\\w+).*",
        ".*",
        "x",
        "(?<n>.*)",
        "^.*\\/(.*)$",
        "(a|C)*.*",
    ]
)
REPLACEMENTS = st.sampled_from(
    ["$1", "$2", "$1@$2", "$12", "$10", "x", "", "${n}", "\\$1", "$4@$5", "$1\\/a", "$", "$0", "$x", "a$3b$1"]
)
RULES = st.builds("RULE:{}/{}/{}".format, PATTERNS, REPLACEMENTS, st.sampled_from(["", "L", "U"]))
ODD = st.text(alphabet="RULE:DFAT/,.*()$1\\aL ", max_size=20)
ENTRIES = st.one_of(RULES, st.just("DEFAULT"), st.just(""), ODD)


@settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(ENTRIES, max_size=3), separator=st.sampled_from([",", ", ", " ,"]))
def test_rules_map_as_kafkas(java: JavaSecurity, entries: list[str], separator: str) -> None:
    rules = separator.join(entries)
    try:
        mapper = PrincipalMapper(rules)
    except SettingError:
        found = {java.mapped(rules, name)[0] for name in NAMES}
        # refused here at the start: what Kafka rejects, or fails at with some client
        assert found & {"rejected", "fails"} or "cannot be used" in rules or _is_unreached(rules, java)
        return
    for name in NAMES:
        try:
            ours: tuple[str, str | None] = ("name", mapper.name_of(name))
        except NoRuleMatchesError:
            ours = ("none", None)
        assert ours == java.mapped(rules, name), name


def _is_unreached(rules: str, java: JavaSecurity) -> bool:
    """Whether the rule that would fail comes behind one that always matches, or matches none of NAMES."""
    return all(java.mapped(rules, name)[0] in {"name", "none"} for name in NAMES)


# ---- rules of Kerberos

REALM = "EXAMPLE.COM"
PRINCIPALS = [
    "alice@EXAMPLE.COM",
    "Bob@OTHER.COM",
    "kafka/h1@EXAMPLE.COM",
    "a.b-c/d.e@OTHER.COM",
    "alice",
    "a/b",
    "a/b/c@R",
    "a@b@c",
    "@",
    "a/@R",
    "\u0130x@EXAMPLE.COM",
]
FORMATS = st.sampled_from(
    ["$1", "$1@$0", "$2", "$1-$2", "$0", "$1$1", "x", "", "$", "$3", "a$01b", "$1/$2", "$$1"]
)
MATCHES = st.sampled_from(["", "(.*)", "(.*@OTHER[.]COM)", "([a-z]+)", "(a|x)", "(a**)", "()", "(.*-h1)"])
CHANGES = st.sampled_from(
    [
        "",
        "s/@.*//",
        "s/[.]/-/g",
        "s/[.]/-/",
        "s/(a)(l)/$2$1/",
        "s/a/$1/",
        "s/x*/-/g",
        "s/$/y/",
        "s/a/b\\/",
        "s/(b)?a/$1z/g",
    ]
)
KERBEROS_RULES = st.one_of(
    st.builds(
        "RULE:[{}:{}]{}{}{}".format,
        st.sampled_from(["1", "2", "1", "0", "", "02"]),
        FORMATS,
        MATCHES,
        CHANGES,
        st.sampled_from(["", "L", "U", "/L", "/U", "/", "x"]),
    ),
    st.just("DEFAULT"),
    st.text(alphabet="RULE:[12]$0()s/ab.*gLU\\ ", max_size=20),
)


@settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules=st.lists(KERBEROS_RULES, max_size=3))
def test_principals_of_kerberos_have_the_names_that_kafka_gives_them(
    java: JavaSecurity, rules: list[str]
) -> None:
    theirs = {name: java.short_name(rules, name, REALM) for name in PRINCIPALS}
    try:
        namer = KerberosShortNamer(rules, REALM)
    except SettingError as refused:
        # at the start: what Kafka rejects, and what it would fail at with clients, or may understand otherwise
        is_rejected = {kind for kind, _ in theirs.values()} == {"rejected"}
        assert is_rejected or "cannot be followed" in str(refused)  # noqa: PT017
        return
    for name, found in theirs.items():
        try:
            ours: tuple[str, str | None] = ("name", namer.name_of(name))
        except NoRuleMatchesError:
            ours = ("none", None)
        assert ours == found, name


# ---- regular expressions

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "\\w",
        "\\d",
        "\\s",
        "\\S",
        "[ab]",
        "[^a]",
        "[a-c]",
        "[a-z-9]",
        "\\p{Alpha}",
        "[\\d,=]",
        "\\Qa.\\E",
        "(a)",
        "(?:ab|b)",
        "(a|b)",
        "\\.",
        "\\x41",
        "\\u00e9",
        "(?i:a)",
        "(?=a)",
        "(?!b)",
        "[\\p{Punct}]",
        "$",
        "^",
        "|",
    ]
)
QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "{2}", "{1,}", "{0,2}?"]
)
EXPRESSIONS = st.one_of(
    st.lists(st.tuples(ATOMS, QUANTIFIERS).map("".join), max_size=5).map("".join),
    st.text(alphabet="ab(){}[]^$.*+?|\\-,:<>=!Q12&dpk", max_size=8),
)
TEXTS = st.lists(st.text(alphabet="abcABé.,=-1 \n\r_", max_size=6), min_size=1, max_size=8)


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=EXPRESSIONS, texts=TEXTS)
def test_expressions_match_as_in_java(java: JavaSecurity, pattern: str, texts: list[str]) -> None:
    import re

    try:
        ours = re.compile(translate(pattern), re.ASCII)
    except JavaRegexError:
        return  # refused: Java may know what it means
    assert [ours.fullmatch(text) is not None for text in texts] == java.matches(pattern, texts)


# ---- stores that keytool makes


def keytool(*words: str) -> None:
    require_classpath()  # skips where there is no Java
    subprocess.run(["keytool", *words], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("stores")
    (directory / "ca.pem").write_text(Authority("Imported").pem)
    made = {}
    for kind in ("JKS", "PKCS12"):
        path = made[kind] = directory / f"store.{kind.lower()}"
        where = ("-keystore", str(path), "-storetype", kind, "-storepass", SECRET, "-keypass", SECRET)
        keytool(
            "-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me, O=Org", "-validity", "2", *where
        )
        keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(directory / "ca.pem"), *where[:6])
    made["JKS by name"] = made["PKCS12"]  # what keytool makes of a .jks since Java 9
    return made


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "JKS by name"])
def test_stores_of_keytool_are_read(stores: dict[str, Path], kind: str) -> None:
    path = str(stores[kind])
    declared = kind.split(maxsplit=1)[0]
    found: Stores = load_stores(
        TlsSettings(
            {
                "ssl.keystore.type": declared,
                "ssl.keystore.location": path,
                "ssl.keystore.password": SECRET,
                "ssl.truststore.type": declared,
                "ssl.truststore.location": path,
                "ssl.truststore.password": SECRET,
            }
        )
    )
    assert found.key_store is not None
    assert len(found.key_store.chain) == 1
    assert found.trusted is not None
    assert len(found.trusted) == 2
    with pytest.raises(SettingError, match="another password"):
        load_stores(
            TlsSettings(
                {
                    "ssl.keystore.type": declared,
                    "ssl.keystore.location": path,
                    "ssl.keystore.password": "wrong",
                }
            )
        )
