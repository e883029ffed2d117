"""Generated rules against Kafka's SslPrincipalMapper: tests/conformance/test_security_java.py."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.errors import SettingError
from barnabas.security.java_regex import JavaRegexError
from barnabas.security.mapping_rules import NoRuleMatchesError, PrincipalMapper, replacement_parts

DN = "CN=duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DN),
        ("", None),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "duke"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/, RULE:^CN=(\\w+),.*$/$1/U ,DEFAULT", "DUKE"),
        ("RULE:^CN=(.*?),.*$/$1@X/L", "duke@x"),
        ("RULE:^(.*)$/$1$2/", f"{DN}$2"),
        ("RULE:(.*?),(.*)/$2.$1/", "OU=ServiceUsers,O=Org,C=US.CN=duke"),
        ("RULE:(?<a>.*?),.*/${a}\\$/", "CN=duke$"),
        ("RULE:^CN=(.*?)(x)?,.*$/$12/", "duke2"),
        ("RULE:.*/x/", "xx"),
        ("RULE:^CN=other$/x/", None),
        ("RULE:^CN=(.*?),OU=\\p{Alpha}+.*$/$1/", "duke"),
        ("RULE:^.*\\/.*$/a\\/b/,RULE:^.*$/a\\/b/", "a/b"),
        ("RULE:^(x)?.*$/[$1]/", "[]"),
        ("RULE:^(.)(.).*$/$0/", DN),
        ("RULE:^(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.).*$/$11-$12/", "=-C2"),
    ],
)
def test_names(rules: str, name: str | None) -> None:
    mapper = PrincipalMapper(rules)
    assert repr(mapper) == f"<PrincipalMapper {rules}>"
    if name is not None:
        assert mapper.name_of(DN) == name
        return
    with pytest.raises(NoRuleMatchesError, match=f"matches {DN}"):
        mapper.name_of(DN)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("DEFAULTS", "is no rule"),
        ("RULE:a", "is no rule"),
        ("RULE:a/b/X", "is no rule"),
        ("RULE:[a-]z/b/,x", "is no rule"),
        ("RULE:(/b/", "cannot be used"),
        ("RULE:\\bx/b/", "is not supported"),
        ("RULE:.*/$1/", r"\$1 in the replacement names no group"),
        ("RULE:(.*)/$x/", r"\$x in the replacement names no group"),
        ("RULE:(.*)/$/", r"\$ in the replacement names no group"),
        ("RULE:(.*)/${b}/", "in the replacement names no group"),
        ("RULE:(.*)/$3$4/", "names no group"),
        ("RULE:(.*)/$4@@$5\\\\$3/", "names no group"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(rules: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        PrincipalMapper(rules)
    assert caught.value.key == "ssl.principal.mapping.rules"
    assert caught.value.value == rules


@given(st.text(alphabet="RULE:DFAT/,.*()$12\\aL "), st.text(alphabet="CN=a,b", max_size=12))
def test_any_rules_give_a_name_or_one_of_two_errors(rules: str, name: str) -> None:
    with contextlib.suppress(SettingError, NoRuleMatchesError):
        assert isinstance(PrincipalMapper(rules).name_of(name), str)


def test_a_replacement_that_ends_with_a_backslash_is_one_at_which_java_fails() -> None:
    with pytest.raises(JavaRegexError, match="ends with a backslash"):
        replacement_parts("a\\", re.compile("a"))
