"""Tests the reports of an audit: their texts, and that every figure has its data."""

from __future__ import annotations

from barnabas.pipeline.audit.audit import AuditResult, audit
from barnabas.pipeline.audit.engines import LocalEngine
from barnabas.pipeline.audit.plan import AuditOptions
from barnabas.pipeline.report import audit_report, compact_report, tables
from barnabas.pipeline.report.figures import GREEN, RED
from barnabas.pipeline.report.page import Page
from tests.pipeline.audit.damages import DAMAGES
from tests.pipeline.report.reading import read, shapes, texts
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, TOPIC_ID, append
from tests.storage.verify.verified import LOG_DIR, written


def audited(*damages: str, counts_keys: bool = True) -> AuditResult:
    env = FaultEnv()
    written(env)
    for number, name in enumerate(damages):
        DAMAGES[name].do(
            env, number
        )  # each in a segment of its own: batches behind a damage are not compared with an index
    options = AuditOptions(is_deep=True, counts_keys=counts_keys, now_ms=T0 + 60_000)
    return audit(env, [LOG_DIR], options, LocalEngine(env))


def figures(page: Page) -> dict[str, list[str]]:
    """The texts of each figure, by its title."""
    return {figure.title: texts(figure) for section in page.sections for figure in section.figures}


def test_nothing_wrong() -> None:
    page = audit_report.page_of(audited())
    assert (page.verdict, page.tone) == ("Nothing is wrong.", "good")
    found = read(page)
    assert "None. Checked were" in found.html
    drawn = figures(page)
    assert set(drawn) == {
        "Segments in time",
        "Bytes by topic and codec",
        "Keys and records by topic",
        "What compaction would leave, by topic",
    }
    for title, written_there in drawn.items():
        names = {"orders-0", "plain-3"} if title == "Segments in time" else {"orders"}
        assert names <= set(written_there), title
    assert {"none", "zstd", "lz4", "gzip", "snappy"} <= set(drawn["Bytes by topic and codec"])


def test_damage() -> None:
    result = audited("crc_of_a_batch", "position_in_an_index", "a_byte_of_a_snapshot")
    page = audit_report.page_of(result, tables="/srv/audits")
    assert page.tone == "bad"
    assert page.verdict.endswith("in 1 place: something is lost or contradicts itself.")
    found = read(page)
    for row in result.findings:
        assert {row["problem"], row["path"], row["check"]} <= set(found.texts)
    drawn = figures(page)
    assert {"crc", "offset-index", "snapshots"} <= set(drawn["Findings by check"])
    assert "with errors" in drawn["Segments in time"]


def test_a_warning_is_no_error() -> None:
    page = audit_report.page_of(audited("a_lost_segment"))
    assert page.tone == "fair"
    assert page.verdict.startswith("No errors, 1 warning: offsets do not follow each other.")


def test_a_warning_of_which_nothing_is_lost() -> None:
    result = audited()
    warning = {**audited("a_lost_segment").findings[0], "check": "names"}
    page = audit_report.page_of(result._replace(findings=[warning]))
    assert (page.verdict, page.tone) == ("No errors. 1 warning: nothing is lost.", "fair")


def test_many_findings_are_cut_and_the_table_is_named() -> None:
    result = audited("crc_of_a_batch")
    many = result._replace(findings=result.findings * 700)
    found = read(audit_report.page_of(many, tables="/srv/audits"))
    left = len(many.findings) - audit_report.FINDINGS_IN_A_PAGE
    note = f"{left:,} more are in the table of findings, /srv/audits/findings."
    assert note in found.texts
    elsewhere = f"{left:,} more are not shown: --tables DIR writes all of them."
    assert elsewhere in read(audit_report.page_of(many)).texts, "where no tables were written"


def test_without_keys() -> None:
    page = audit_report.page_of(audited(counts_keys=False))
    assert "Keys and records by topic" not in figures(page)
    read(page)


def test_the_savings_of_compaction() -> None:
    result = audited()
    page = compact_report.page_of(result)
    orders = result.partitions[0]
    assert page.verdict.startswith("Compaction would save ")
    found = read(page)
    drawn = figures(page)
    assert "orders-0" in drawn["What compaction would leave, by partition"]
    segments = [row for row in result.segments if row["topic"] == "orders" and not row["is_active"]]
    assert {str(row["base_offset"]) for row in segments} <= set(drawn["The segments of orders-0"])
    assert f"{100 * orders['saved_bytes'] / orders['bytes']:.1f} %" in found.texts
    for row in segments:
        assert f"{row['base_offset']:020d}" in found.texts


def test_segments_behind_an_open_transaction_are_counted() -> None:
    result = audited()
    assert ("segments behind open transactions", "0") in compact_report.page_of(result).facts
    closed = [row for row in result.segments if not row["is_active"]]
    held = [row | {"saved_bytes": None} if row in closed[-2:] else row for row in result.segments]
    page = compact_report.page_of(result._replace(segments=held))
    assert ("segments behind open transactions", "2") in page.facts
    assert f"{closed[-1]['base_offset']:020d}" not in read(page).texts


def test_an_empty_directory_has_reports_too() -> None:
    env = FaultEnv()
    written(env)
    for name in ("orders-0", "plain-3"):
        for each in env.listdir(f"{LOG_DIR}/{name}"):
            env.remove(f"{LOG_DIR}/{name}/{each}")
    options = AuditOptions(is_deep=True, counts_keys=True, now_ms=T0)
    result = audit(env, [LOG_DIR], options, LocalEngine(env))
    read(audit_report.page_of(result))
    read(compact_report.page_of(result))


def test_many_segments_and_implausible_times_fit_the_figure() -> None:
    result = audited()
    first = result.segments[0]
    many = [
        {**first, "base_offset": at, "errors": int(at == 700), "last_timestamp": first["last_timestamp"]}
        for at in range(1000)
    ]
    many[5]["last_timestamp"] = many[5]["last_timestamp"].replace(year=9000)
    many[6]["first_timestamp"] = many[6]["first_timestamp"].replace(year=1970)
    page = audit_report.page_of(result._replace(segments=many))
    (figure,) = (
        each for section in page.sections for each in section.figures if each.title == "Segments in time"
    )
    assert shapes(figure, RED) == 2, "one stretch, and one in the legend"
    assert shapes(figure, GREEN) <= audit_report.STRETCHES_IN_A_ROW
    assert "9000" not in figure.alt
    assert "1970" not in figure.alt


def test_timestamps_in_microseconds_do_not_break_the_report() -> None:
    env = FaultEnv()
    manager = written(env, stop=False)
    mixed = manager.get_or_create_log("mixed", 0, TOPIC_ID)
    append(mixed, b"in microseconds", timestamp=T0 * 1000)
    append(mixed, b"in milliseconds")
    manager.shutdown()
    options = AuditOptions(is_deep=True, counts_keys=True, now_ms=T0 + 60_000)
    result = audit(env, [LOG_DIR], options, LocalEngine(env))
    (row,) = (row for row in result.segments if row["topic"] == "mixed")
    assert (row["first_timestamp"] is None, row["last_timestamp"]) == (False, None)
    page = audit_report.page_of(result)
    assert "mixed-0" in figures(page)["Segments in time"]
    read(page)


def test_directories_of_one_name_are_distinguished() -> None:
    result = audited()
    both = [
        {**row, "log_dir": f"/mnt/{broker}/data"} for broker in ("one", "two") for row in result.partitions
    ]
    segments = [
        {**row, "log_dir": f"/mnt/{broker}/data"} for broker in ("one", "two") for row in result.segments
    ]
    drawn = figures(audit_report.page_of(result._replace(partitions=both, segments=segments)))
    assert {"one/data/orders-0", "two/data/orders-0"} <= set(drawn["Segments in time"])


def test_long_tables_are_cut() -> None:
    table = tables.cut(("n",), [(at,) for at in range(1200)], "All")
    assert (len(table.rows), table.note) == (1000, "200 more are not shown: --tables DIR writes all of them.")
    assert tables.cut(("n",), [(1,)], "All").note == ""


def test_a_tail_that_is_not_flushed_is_no_error() -> None:
    """The log of a running or killed broker may end in a partial batch, which is only a note."""
    result = audited()
    torn = [{**row, "is_whole": not row["is_active"]} for row in result.segments]
    page = audit_report.page_of(result._replace(segments=torn))
    assert "with errors" not in figures(page)["Segments in time"]


def test_errors_are_counted_by_place_on_every_broker() -> None:
    result = audited("crc_of_a_batch")
    both = [{**row, "log_dir": log_dir} for log_dir in ("/one", "/two") for row in result.findings]
    assert " in 2 places:" in audit_report.page_of(result._replace(findings=both)).verdict


def test_partitions_of_several_brokers_are_distinguished_in_the_compact_report() -> None:
    result = audited()
    both = [{**row, "log_dir": f"/mnt/{at}"} for at in ("one", "two") for row in result.partitions]
    drawn = figures(compact_report.page_of(result._replace(partitions=both)))
    assert {"one/orders-0", "two/orders-0"} <= set(drawn["What compaction would leave, by partition"])


def test_records_without_a_key_are_reported_as_lost() -> None:
    result = audited()
    assert "would be lost" not in compact_report.page_of(result).verdict
    keyless = [{**row, "keyless_records": 7} for row in result.segments]
    closed = sum(row["saved_bytes"] is not None for row in keyless)
    page = compact_report.page_of(result._replace(segments=keyless))
    assert f"{7 * closed} records that have no key would be lost by it." in page.verdict
    assert page.tone == "fair"


def test_damage_that_is_not_counted_is_reported() -> None:
    page = compact_report.page_of(audited("crc_of_a_batch"))
    assert page.verdict.endswith("what cannot be read is not counted. See barnabas pipeline audit.")
    assert page.tone == "bad"


def test_five_thousand_partitions() -> None:
    """Figures show the largest partitions, and tables state what they leave out."""
    result = audited()
    first = result.partitions[0]
    topics = [f"com.example.department.service.topic-{number:04d}" for number in range(5000)]
    many = result._replace(
        partitions=[{**first, "topic": topic, "bytes": 1000 + at} for at, topic in enumerate(topics)],
        segments=[
            {**row, "topic": topic} for topic in topics for row in result.segments if row["topic"] == "orders"
        ],
    )
    for page in (audit_report.page_of(many), compact_report.page_of(many)):
        found = read(page)
        assert len(found.html) < 8_000_000
        assert "4,000 more are not shown: --tables DIR writes all of them." in found.texts
        for section in page.sections:
            for figure in section.figures:
                assert figure.svg.count("\n") < 60_000, figure.title
