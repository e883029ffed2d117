"""The parts of the admin commands that are plain functions."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click
import pytest
from rich.console import Console

from broker.admin.calls.reassignments import Reassignment
from broker.admin.commands.log_dirs import human_bytes
from broker.admin.config_values import Secret, parse_added, parse_number, parse_secret, read_added
from broker.admin.errors import BadFileError, ServerError, check, code_name
from broker.admin.files import read_json, read_partitions, read_topics
from broker.admin.names import (
    ConfigSource,
    ResourceType,
    ScramMechanism,
    name_of,
    scram_mechanism,
    scram_name,
)
from broker.admin.options import Given
from broker.admin.output import Output, aligned
from broker.admin.partitions import TopicPartition, by_topic, parse_topic_partitions
from broker.admin.patterns import TopicPattern
from broker.admin.re2 import Re2SyntaxError, check_syntax
from broker.admin.reassignment import Replica, no_throttles, plan_text, read_plan, spread, throttles
from broker.admin.shapes import ROWS, OffsetRow, TopicRow, camel_case, json_object, type_name
from broker.admin.times import parse_datetime, parse_duration
from protocol.errors import ErrorCode

# ---- points in time


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:01.5Z", 1005),  # as Java reads it: five milliseconds
        ("2023-11-14T22:13:25.001", 1_700_000_005_001),
        ("2023-11-14T22:13:25.001Z", 1_700_000_005_001),
        ("2023-11-14T23:13:25.001+01:00", 1_700_000_005_001),
        ("2023-11-14T23:13:25.001+0100", 1_700_000_005_001),
        ("2023-11-14T20:13:25.001-02", 1_700_000_005_001),
    ],
)
def test_dates(text: str, milliseconds: int) -> None:
    assert parse_datetime(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "now", "2023-11-14", "2023-11-14T22:13:25", "2023-13-14T22:13:25.000", "T"]
)
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(ValueError, match="is not YYYY-MM-DD"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("pt1.5s", 1500),
        ("PT-1.5S", -1500),
        ("-PT1M", -60_000),
        ("P-1D", -86_400_000),
        ("PT1M-1S", 59_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "PX", "P1H", "P1Y", "PT1S1M"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


# ---- settings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=[2,3],c=", {"a": "1", "b": "2,3", "c": ""}),
        (" a = 1 , b = [x=y,z] ", {"a": "1", "b": "x=y,z"}),
        (
            "SCRAM-SHA-256=[iterations=8192,password=a,b=c]",
            {"SCRAM-SHA-256": "iterations=8192,password=a,b=c"},
        ),
    ],
)
def test_settings_to_add(text: str, found: dict[str, str]) -> None:
    assert parse_added(text) == found


@pytest.mark.parametrize("text", ["a", "a=1,b", "a=b=c", "", "a=1,,b=2", "a b=1"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is no key"):
        parse_added(text)


def test_a_file_of_settings(tmp_path: Path) -> None:
    file = tmp_path / "add.properties"
    file.write_text("retention.ms = 5\ncleanup.policy=compact,delete\n")
    assert read_added(file) == {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    file.write_text("a\\ b=1")
    with pytest.raises(ValueError, match="'a b' is no key"):
        read_added(file)
    file.write_text("a=\\uXY")
    with pytest.raises(BadFileError, match="line 1"):
        read_added(file)
    with pytest.raises(BadFileError, match="cannot be read"):
        read_added(tmp_path)


def test_secrets() -> None:
    sha_256 = ScramMechanism.SCRAM_SHA_256
    assert parse_secret(sha_256, "password=a,b") == Secret(4096, "a,b")
    assert parse_secret(sha_256, "iterations=8192,password=x") == Secret(8192, "x")
    assert parse_secret(sha_256, "iterations=-1,password=x") == Secret(4096, "x")
    with pytest.raises(
        ValueError, match="Iterations 10 is less than the minimum 4096 required for SCRAM-SHA-256"
    ):
        parse_secret(sha_256, "iterations=10,password=x")
    with pytest.raises(ValueError, match="is expected") as refused:
        parse_secret(sha_256, "pasword=geheim")
    assert "geheim" not in str(refused.value)


def test_numbers_of_quotas() -> None:
    assert parse_number("k", "1.5") == 1.5
    with pytest.raises(ValueError, match="Cannot parse quota configuration value for k: x"):
        parse_number("k", "x")


# ---- names


def test_names() -> None:
    assert name_of(ConfigSource, 1) == "DYNAMIC_TOPIC_CONFIG"
    assert name_of(ConfigSource, 99) == "99"
    assert scram_name(1) == "SCRAM-SHA-256"
    assert scram_name(7) == "7"
    assert scram_mechanism("SCRAM-SHA-512") is ScramMechanism.SCRAM_SHA_512
    assert scram_mechanism("UNKNOWN") is None


def test_errors_say_what_and_why() -> None:
    assert str(ServerError(ErrorCode.INVALID_PARTITIONS, "Too few.")) == "Too few (INVALID_PARTITIONS)"
    assert str(ServerError(ErrorCode.INVALID_PARTITIONS, about="t")).startswith("t: ")
    assert code_name(999) == "error 999"
    assert str(ServerError(999)) == "The broker answered with error 999 (error 999)"
    check(0)
    with pytest.raises(ServerError):
        check(ErrorCode.UNKNOWN_SERVER_ERROR)


# ---- topics and partitions


@pytest.mark.parametrize(
    ("pattern", "topic", "allowed"),
    [
        ("t", "t", True),
        ("t", "tt", False),
        ("t.*", "tt", True),
        ("a,b", "b", True),
        ("a, b", "b", True),
        ("'a|b'", "a", True),
        ('"t"', "t", True),
        ("a\\.b", "aXb", False),
        ("[[]", "[", True),
    ],
)
def test_patterns_of_topics(pattern: str, topic: str, allowed: bool) -> None:
    assert TopicPattern(pattern).allows(topic) is allowed


def test_internal_topics_can_be_left_out() -> None:
    assert TopicPattern(".*").allows("__consumer_offsets")
    assert not TopicPattern(".*").allows("__consumer_offsets", exclude_internal=True)


def test_what_is_no_pattern() -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        TopicPattern("(")


def test_partitions_of_a_topic() -> None:
    assert parse_topic_partitions("t") == ("t", None)
    assert parse_topic_partitions("t:0,2") == ("t", [0, 2])
    assert str(TopicPartition("t", 1)) == "t-1"
    assert by_topic([TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 2)]) == {
        "t": [1, 2],
        "u": [0],
    }


@pytest.mark.parametrize("text", ["t:", ":0", "t:a", "t:0,", "t:0:1", "t:-1"])
def test_what_are_no_partitions(text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("-", ".")):
        parse_topic_partitions(text)


# ---- files


def test_files_of_partitions(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 1, "offset": 5}], "version": 1}')
    (entry,) = read_partitions(file)
    assert entry.partition == TopicPartition("t", 1)
    assert entry.integer("offset", file) == 5
    with pytest.raises(BadFileError, match="and a list is expected"):
        entry.list_of("offset", int, file)
    with pytest.raises(BadFileError, match="replicas of t-1 is None"):
        entry.integer("replicas", file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("[]", "an object is expected, not list"),
        ("{}", 'no list of "partitions"'),
        ('{"partitions": [], "version": 2}', "Not supported version field value 2"),
        ('{"partitions": [{"topic": "t"}]}', '"partition": NUMBER'),
        ('{"partitions": [7]}', '"partition": NUMBER'),
        (
            '{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}',
            "duplicate .* t-1",
        ),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(text)
    with pytest.raises(BadFileError, match=said):
        read_partitions(file)


def test_files_of_topics(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text('{"topics": [{"topic": "t"}, {"topic": "u"}]}')
    assert read_topics(file) == ["t", "u"]
    for text in ('{"topics": ["t"]}', '{"topics": [{"topic": "t"}, {"topic": "t"}]}'):
        file.write_text(text)
        with pytest.raises(BadFileError):
            read_topics(file)
    with pytest.raises(BadFileError, match="cannot be read"):
        read_json(tmp_path)


# ---- moves


def test_plans(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]},'
        ' {"topic": "t", "partition": 1, "replicas": [2]}]}'
    )
    plan = read_plan(file, is_complete=True)
    t_0, t_1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert plan.replicas == {t_0: [1, 2], t_1: [2]}
    assert plan.log_dirs == {Replica(2, t_0): "/d"}
    assert json.loads(plan_text(plan.replicas, plan.log_dirs))["partitions"][0]["log_dirs"] == ["any", "/d"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('"replicas": [1], "log_dirs": []', "Size of replicas list"),
        ('"replicas": []', "cannot be empty"),
        ('"replicas": [1, 1]', "duplicate entries"),
        ('"replicas": ["1"]', "a list is expected"),
    ],
)
def test_plans_that_make_no_sense(tmp_path: Path, entry: str, said: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, ' + entry + "}]}")
    with pytest.raises(BadFileError, match=said):
        read_plan(file, is_complete=True)


def test_proposals_use_the_brokers_in_turn() -> None:
    current = {TopicPartition("t", number): [1, 2] for number in range(6)}
    proposed = spread(current, [5, 6, 7], draw=lambda _: 0)
    assert list(proposed.values()) == [[5, 6], [6, 7], [7, 5], [5, 7], [6, 5], [7, 6]]
    with pytest.raises(ValueError, match="has 2 replicas, and there are only 1 brokers"):
        spread(current, [5])


def test_throttles_name_who_gives_and_who_takes() -> None:
    t_0, t_1 = TopicPartition("t", 0), TopicPartition("t", 1)
    moving = {t_1: Reassignment([1, 2], [2], [])}
    changes = throttles({t_0: [1], t_1: [1, 2]}, {t_0: [2], t_1: [1]}, moving, 1000)
    assert changes[ResourceType.TOPIC, "t"] == {
        "leader.replication.throttled.replicas": "0:1,1:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    rates = {"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"}
    assert changes[ResourceType.BROKER, "1"] == changes[ResourceType.BROKER, "2"] == rates
    taken_back = no_throttles({1}, {"t"})
    assert set(taken_back) == {(ResourceType.BROKER, "1"), (ResourceType.TOPIC, "t")}
    assert not any(value for keys in taken_back.values() for value in keys.values())


# ---- regular expressions of RE2


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "a.*",
            "[]a]",
            "[^]a]",
            "a{,3}",
            "a{1",
            r"\z",
            r"\A",
            r"\b",
            r"\Q*\E*",
            r"\Q**",
            r"\pL",
            r"\p{^Greek}",
        ),
        *(
            r"[\pL]",
            "[[:^alpha:]]",
            "(?P<n>a)",
            "(?<n>a)",
            "(?i)a",
            "(?i-s:a)",
            r"\x{41}",
            "a{0}",
            "^*",
            "[a-b-c]",
        ),
        *(r"\07", "(?:)", "()", "a]", "\\é", "[a-]"),
    ],
)
def test_what_re2_takes(pattern: str) -> None:
    check_syntax(pattern)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("a**", "invalid nested repetition operator"),
        ("a{2,1}", "invalid repeat count"),
        ("a{1001}", "invalid repeat count"),
        ("*a", "missing argument to repetition operator"),
        (r"\1", "invalid escape sequence"),
        (r"\Z", "invalid escape sequence"),
        (r"\p{Foo}", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(?P<n-x>a)", "invalid named capture"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"\x{110000}", "invalid escape sequence"),
        ("\\", "trailing backslash at end of expression"),
        (r"[\b]", "invalid escape sequence"),
    ],
)
def test_what_re2_does_not_take(pattern: str, said: str) -> None:
    with pytest.raises(Re2SyntaxError) as refused:
        check_syntax(pattern)
    assert str(refused.value) == said


# ---- what is given


def test_what_was_given_and_what_was_not() -> None:
    given = Given({"partitions": 0, "topic": None, "list": False, "config": (), "describe": True})
    assert given.has("partitions")
    assert given.has("describe")
    assert not any(map(given.has, ("topic", "list", "config")))
    assert given.one_action("list", "describe") == "describe"
    for refused in (
        lambda: given.one_action("list", "topic"),
        lambda: given.need("describe", "topic"),
        lambda: given.forbid("describe", "list", "partitions"),
        lambda: given.only_with("describe", "list", "topic"),
    ):
        with pytest.raises(click.UsageError, match="--"):
            refused()
    given.only_with("list", "topic")
    given.forbid("describe", "list")


# ---- output


def test_columns_are_aligned() -> None:
    assert aligned([["A", "LONG"], ["bb", "c"]]) == ["A   LONG", "bb  c"]


def test_a_table_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.table(("T", "N"), [("t", None), ("u", [1, 2]), (TopicPartition("v", 0), [])], title="not shown")
    out.row(OffsetRow("t", 0, 1))
    assert capsys.readouterr().out == "T    N\nt    -\nu    1,2\nv-0  -\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True, console=Console())
    out.line("not shown")
    out.table(("T",), [("t",)])
    out.row(OffsetRow("é", 0, 1))
    assert capsys.readouterr().out == '{"type": "offset", "topic": "é", "partition": 0, "offset": 1}\n'
    assert not out.is_terminal


def test_a_table_on_a_terminal() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=60, color_system=None, highlight=False)
    out = Output(as_json=False, console=console)
    out.table(("Topic", "N"), [("[red]t", 1)], title="[bold] title")
    shown = screen.getvalue()
    assert "[bold] title" in shown.replace("\x1b[1m", ""), "names are shown as they are, brackets too"
    assert "[red]t" in shown
    assert "─" in shown


def test_failures_are_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.failed("gone wrong")
    assert out.has_failed
    assert capsys.readouterr().err == "error: gone wrong\n"


def test_sizes_for_people() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"}
    assert {size: human_bytes(size) for size in sizes} == sizes


# ---- shapes


def test_json_objects() -> None:
    row = TopicRow("t", "id", False, 1, None, None, None)
    assert list(json_object(row)) == [
        *(
            "type",
            "topic",
            "topicId",
            "isInternal",
            "partitionCount",
            "replicationFactor",
            "configs",
            "partitions",
        )
    ]
    assert camel_case("a_b_cd") == "aBCd"


@pytest.mark.parametrize("row", ROWS)
def test_each_shape_says_what_each_field_is(row: type[Any]) -> None:
    assert row.__doc__
    assert type_name(row) == row.__name__[0].lower() + row.__name__[1:-3]
    for field, hint in get_type_hints(row, include_extras=True).items():
        assert get_origin(hint) is Annotated, f"{field} of {row.__name__} is not explained"
        assert get_args(hint)[1]
