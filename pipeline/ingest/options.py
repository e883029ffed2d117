"""The options of an ingest, checked here before Spark starts: an invalid one raises ValueError."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, get_args

from barnabas.pipeline.decoding.spec import FORMATS, ValueFormat
from barnabas.pipeline.ingest.files import hidden

TableFormat = Literal["parquet", "delta"]
PartitionBy = Literal["day", "hour"]
Trigger = Literal["once", "available-now", "continuous"]
Isolation = Literal["read_committed", "read_uncommitted"]
FUTURE_AFTER_S: Final = 3600.0
"""As Kafka's log.message.timestamp.after.max.ms."""
MAX_PORT: Final = 65535


@dataclass(frozen=True)
class DecodeOptions:
    """How values are decoded: by `schema_file`, or by the registry's latest version of `subject`.

    With a registry, values begin with its wire format. `schema_file` then says what the columns are, and the registry
    what the values were written with. `subject` is <topic>-value by default. `message` is the Protobuf message's full
    name, needed where its file has several.
    """

    value_format: ValueFormat | None = None
    schema_file: Path | None = None
    registry: str = ""
    subject: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if self.schema_file is None and not self.registry:
            raise ValueError("values are decoded by a schema file or by a registry: name one of them")
        if self.schema_file is not None and self.value_format is None:
            raise ValueError(f"name the format of the schema file: {', '.join(FORMATS)}")
        if self.value_format is not None and self.value_format not in FORMATS:
            raise ValueError(f"the value format {self.value_format!r} is not known: {', '.join(FORMATS)} are")
        if self.subject and (self.schema_file is not None or not self.registry):
            raise ValueError(
                f"the subject {self.subject!r} is for a registry to say what the columns are: "
                + (f"leave it or {self.schema_file} out" if self.schema_file else "name the registry")
            )
        if self.message and self.value_format in ("json", "avro"):
            raise ValueError(
                f"the message {self.message!r} is for Protobuf, and the values are {self.value_format}"
            )


@dataclass(frozen=True)
class IngestOptions:
    """One ingest: these topics into this table, with its progress in this checkpoint.

    `starting` holds for a checkpoint that is new: earliest, latest, a time in ISO 8601, or the connector's JSON of
    offsets. `late_after_s`: a record that is older by more than the newest one of its partition before this batch is
    late; None: no record is. `every_s` is the interval between batches of the trigger `continuous`. `kafka` goes to the
    connector as it is: its own options, or those of Kafka's clients with "kafka." in front.
    """

    bootstrap: str
    table: str
    checkpoint: str
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    table_format: TableFormat = "parquet"
    partition_by: PartitionBy = "day"
    quarantine: str = ""
    starting: str = "earliest"
    isolation: Isolation = "read_committed"
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    decode: DecodeOptions | None = None
    keep_value: bool = True
    late_after_s: float | None = None
    future_after_s: float = FUTURE_AFTER_S
    trigger: Trigger = "available-now"
    every_s: float = 10.0
    metrics_port: int | None = None
    second_ingest: bool = False
    """Allows a checkpoint that is new to write into a table that another one has filled."""
    kafka: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if bool(self.topics) == bool(self.topic_pattern):
            raise ValueError("an ingest reads topics, or all that a pattern matches: name one of the two")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}: {', '.join(allowed)} are known")
        for name in ("bootstrap", "table", "checkpoint"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing")
        for name in (
            "max_offsets_per_trigger",
            "min_partitions",
            "every_s",
            "late_after_s",
            "future_after_s",
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}, and has to be finite and more than 0")
        check_metrics_port(self.metrics_port)
        if self.trigger == "once" and self.max_offsets_per_trigger is not None:
            raise ValueError(
                f"max_offsets_per_trigger is {self.max_offsets_per_trigger}, and the trigger once takes all there is "
                "in one batch: available-now observes it"
            )
        if not self.keep_value and self.decode is None:
            raise ValueError(
                "values that are neither kept nor decoded are lost: keep them, or say how to decode them"
            )
        check_places(self.table, self.quarantine_table, self.checkpoint)
        starting_offsets(self.starting)
        check_connector_options(self.kafka)

    @property
    def quarantine_table(self) -> str:
        """The table for records that are malformed or late."""
        return self.quarantine or f"{self.table.rstrip('/')}-quarantine"

    @property
    def subject(self) -> str:
        """The subject in the registry. Raises ValueError where several topics leave it open."""
        if self.decode is not None and self.decode.subject:
            return self.decode.subject
        if len(self.topics) != 1:
            raise ValueError("with several topics say which subject of the registry has the table's columns")
        return f"{self.topics[0]}-value"


_CHOICES: Final = {
    "table_format": get_args(TableFormat),
    "partition_by": get_args(PartitionBy),
    "trigger": get_args(Trigger),
    "isolation": get_args(Isolation),
}


_CONNECTOR: Final = (
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
"""Options of Spark's connector that an ingest passes on."""


def check_connector_options(given: Mapping[str, str]) -> None:
    """Raises ValueError for an unknown option: the connector would ignore it silently."""
    known = {name.lower() for name in _CONNECTOR}
    for name in given:
        if not name.lower().startswith("kafka.") and name.lower() not in known:
            raise ValueError(
                f"kafka has {name!r}: settings of Kafka's clients are given as kafka.{name}, and of Spark's connector "
                f"{', '.join(_CONNECTOR)} can be given; an ingest has its own options for the others"
            )


def check_metrics_port(port: int | None) -> None:
    """Raises ValueError for a number that is not a port."""
    if port is not None and not 0 <= port <= MAX_PORT:
        raise ValueError(f"metrics_port is {port}, and ports are 0 to {MAX_PORT}")


def check_places(table: str, quarantine: str, checkpoint: str) -> None:
    """Raises ValueError where one place would be read with another: readers of a table read all files but hidden ones
    (_ or . in front).

    Called for the paths as given and again for the absolute ones: a relative path may name the same place.
    """
    if table.rstrip("/") == quarantine.rstrip("/"):
        raise ValueError(f"the quarantine cannot be the table itself, {table}")
    places = {"table": table, "quarantine": quarantine, "checkpoint": checkpoint}
    for outer in ("table", "quarantine"):
        for name, place in places.items():
            if name != outer and _is_visible_in(place, places[outer]):
                raise ValueError(
                    f"the {name} {place} lies in the {outer} {places[outer]}, where its files would be read as "
                    "rows: put it beside"
                )


def _is_visible_in(place: str, table: str) -> bool:
    root = table.rstrip("/") + "/"
    path = place.rstrip("/") + "/"
    return path.startswith(root) and not hidden(path.removeprefix(root).rstrip("/"))


def starting_offsets(starting: str) -> dict[str, str]:
    """The connector's options for where a new checkpoint begins. ValueError for any other text."""
    if starting in ("earliest", "latest"):
        return {"startingOffsets": starting}
    try:
        if isinstance(json.loads(starting), dict):
            return {"startingOffsets": starting}
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(starting)
    except ValueError:
        raise ValueError(
            f"starting is {starting!r}: earliest, latest, a time as 2026-01-31T12:00:00Z, "
            'or offsets as {"topic": {"0": 17}} would do'
        ) from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    # A partition without a record from then on begins at its end, as it does for every consumer that seeks a time.
    return {
        "startingTimestamp": str(round(time.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
    }
