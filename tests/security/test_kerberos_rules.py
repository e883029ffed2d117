"""Rules from Kerberos principals to names; tests/conformance/test_security_java.py holds them against Kafka's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.errors import SettingError
from barnabas.security.kerberos_rules import KerberosName, KerberosShortNamer, parse_name
from barnabas.security.mapping_rules import NoRuleMatchesError

REALM = "EXAMPLE.COM"


def name_of(principal: str, *rules: str) -> str | None:
    """None where no rule matches."""
    try:
        return KerberosShortNamer(rules, REALM).name_of(principal)
    except NoRuleMatchesError:
        return None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("alice@R", KerberosName("alice", None, "R")),
        ("kafka/host@R", KerberosName("kafka", "host", "R")),
        ("alice", KerberosName("alice", None, None)),
        ("a/b", KerberosName("a/b", None, None)),
        ("@", KerberosName("", None, "")),
        ("a/@R", KerberosName("a", "", "R")),
    ],
)
def test_names(text: str, name: KerberosName) -> None:
    assert parse_name(text) == name
    assert str(name) == text


@pytest.mark.parametrize("text", ["a/b/c@R", "a@b@c", "a@b/c"])
def test_what_is_no_name_is_let_in_by_no_rule(text: str) -> None:
    with pytest.raises(NoRuleMatchesError, match="is no principal of at most two components"):
        parse_name(text)


@pytest.mark.parametrize(
    ("principal", "rules", "name"),
    [
        ("alice@EXAMPLE.COM", ["DEFAULT"], "alice"),
        ("kafka/host@EXAMPLE.COM", ["DEFAULT"], "kafka"),
        ("alice@OTHER.COM", ["DEFAULT"], None),
        ("alice", [], "alice"),
        ("alice@EXAMPLE.COM", [], None),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1]"], "alice"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1]/L"], "alice"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1]/U"], "ALICE"),
        ("ALICE@EXAMPLE.COM", ["RULE:[1:$1]L"], "alice"),
        ("alice@EXAMPLE.COM", ["RULE:[2:$1]", "DEFAULT"], "alice"),
        ("kafka/h1@EXAMPLE.COM", ["RULE:[2:$1-$2]"], "kafka-h1"),
        ("kafka/h1@EXAMPLE.COM", ["RULE:[2:$2.$0]"], "h1.EXAMPLE.COM"),
        ("alice@OTHER.COM", ["RULE:[1:$1@$0](.*@OTHER\\.COM)s/@.*//"], "alice"),
        ("alice@OTHER.COM", ["RULE:[1:$1@$0](.*@ELSE\\.COM)s/@.*//", "DEFAULT"], None),
        ("a.b.c@EXAMPLE.COM", ["RULE:[1:$1]s/[.]/-/"], "a-b.c"),
        ("a.b.c@EXAMPLE.COM", ["RULE:[1:$1]s/[.]/-/g"], "a-b-c"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1]s/(a)(l)/$2$1/"], "laice"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$1]s/(x)?a/$1y/"], "ylice"),
        ("alice@EXAMPLE.COM", ["RULE:[1:](x)", "RULE:[1:c]"], "c"),
        ("alice@EXAMPLE.COM", ["RULE:[1:$01]"], "alice"),
    ],
)
def test_rules(principal: str, rules: list[str], name: str | None) -> None:
    assert name_of(principal, *rules) == name


def test_a_name_with_a_realm_left_in_it_is_let_in_by_no_later_rule() -> None:
    with pytest.raises(NoRuleMatchesError, match=r"makes alice@EXAMPLE\.COM of it, which has / or @ in it"):
        KerberosShortNamer(["RULE:[1:$1@$0]", "DEFAULT"], REALM).name_of("alice@EXAMPLE.COM")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("default", "default is no rule"),
        ("RULE:[1:$1]x", "is no rule from 'x' on"),
        ("RULE:[:$1]", "nothing is no number up to 2147483647"),
        ("RULE:[99999999999:$1]", "99999999999 is no number up to"),
        ("RULE:[" + "9" * 5000 + ":$1]", "is no number up to"),
        ("RULE:[1:$2]", "2 is no number up to 1"),
        ("RULE:[1:$]", "nothing is no number up to 1"),
        ("RULE:[1:$1](a**)", "cannot be followed"),
        ("RULE:[1:$1]s/(a)/$2/", r"\$2 in the replacement names no group"),
        ("RULE:[1:$1]s/a/b\\/", "ends with a backslash"),
    ],
)
def test_rules_that_are_refused(rule: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as caught:
        KerberosShortNamer(["DEFAULT", rule], REALM)
    assert caught.value.key == "sasl.kerberos.principal.to.local.rules"


@given(
    rule=st.text(alphabet="RULE:[]12$0()s/ab.*gLU\\", max_size=24), name=st.text(alphabet="ab/@", max_size=8)
)
def test_any_rule_is_refused_or_makes_a_simple_name_or_none(rule: str, name: str) -> None:
    try:
        namer = KerberosShortNamer([rule], "a")
    except SettingError:
        return
    try:
        made = namer.name_of(name)
    except NoRuleMatchesError:
        return
    assert "@" not in made
    assert "/" not in made or made == name
