"""The table of Kafka's own tests, how their report is read, and the page that lists them."""

from __future__ import annotations

from tests.conformance.kafka_suites.suites import (
    MAIN,
    PAGE,
    ROOT,
    SEAMS,
    Case,
    Suite,
    cases_of,
    failures,
    page_with,
    running,
    suites,
)

SUITE = Suite("a.Test", 2, "", {})
REPORT = (
    "a.Test\tone#1\taborted\t3\torg.opentest4j.TestAbortedException: the same process is tested as Combined\n"
    "a.Test\tone#2\tsuccessful\t30\t\n"
    "b.Test\tother\tsuccessful\t30\t\n"
    "a.Test\ttwo\tfailed\t12\tError: C:\\\\new\\n at line 1\n"
)


def test_a_class_of_kafka_is_listed_once_and_runs_or_has_a_reason() -> None:
    table = suites()
    assert len({suite.name for suite in table}) == len(table)
    for suite in table:
        assert bool(suite.reason) != bool(suite.cases), suite.name
        assert suite.cases or not suite.left_out, suite.name


def test_the_page_has_the_table() -> None:
    assert (ROOT / PAGE).read_text() == page_with(suites()), (
        "python -m tests.conformance.kafka_suites writes it"
    )


def test_stand_ins_are_where_kafka_has_their_namesakes() -> None:
    for source in (MAIN, *SEAMS):
        package = ".".join(source.relative_to(MAIN.parents[2]).parent.parts)
        assert f"package {package};" in source.read_text()


def test_a_suite_that_has_not_ended_has_no_cases_yet() -> None:
    assert cases_of(REPORT, "a.Test") is None
    assert cases_of(REPORT + "a.Test\t\tended\t0", "a.Test") is None


def test_cases_of_a_suite_are_those_of_one_way_to_run_it() -> None:
    assert cases_of(REPORT + "a.Test\t\tended\t0\t\n", "a.Test") == [
        Case("one#2", "successful", ""),
        Case("two", "failed", "Error: C:\\new\n at line 1"),
    ]


def test_all_cases_have_to_pass() -> None:
    passed = [Case("one", "successful", ""), Case("two", "successful", "")]
    assert not failures(SUITE, passed)
    assert failures(SUITE, [passed[0], Case("two", "failed", "why")]) == "two has failed:\nwhy"


def test_a_case_that_does_not_run_is_a_failure() -> None:
    assert "1 cases of a.Test ran, and suites.toml says 2: one" in failures(
        SUITE, [Case("one", "successful", "")]
    )
    assert failures(SUITE, [Case("one", "successful", ""), Case("two", "aborted", "no reason")])


def test_only_suites_with_cases_are_run_without_what_is_left_out() -> None:
    assert running([SUITE, Suite("b.Test", 0, "no", {})]) == [SUITE]
    assert SUITE.word == "a.Test"
    assert Suite("b.Test", 3, "", {"two": "no", "one": "no"}).word == "b.Test-one,two"
