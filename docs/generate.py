"""Writes derived documents: docs/configuration.md, docs/apis.md, docs/cli.md, docs/performance.md, parts of others.

python docs/generate.py           writes them
python docs/generate.py --check   exits with 1 and says which differ; the tests do this
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.kafka_apis.api_checks import API_CHECKS, ApiChecks
from barnabas.broker.request import REGISTRY
from barnabas.broker.security.decisions import Check
from barnabas.config.reference import render
from barnabas.pipeline.cli import pipeline
from barnabas.protocol.api_keys import ApiKey, request_type
from bench import readme as figures
from bench import results
from docs.cli_reference import render as render_commands
from docs.cli_reference import render_command

ROOT: Final = Path(__file__).parent.parent
BEGIN: Final = "<!-- generated: `make docs` writes this part from the registry of handlers -->\n"
BEGIN_COMMANDS: Final = "<!-- generated: `make docs` writes this part from the commands themselves -->\n"
BEGIN_CHECKS: Final = "<!-- generated: `make docs` writes this part from API_CHECKS -->\n"
END: Final = "<!-- end of the generated part -->\n"
BETWEEN_BROKERS: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
"""Requests between brokers and controllers only; no client sends them."""


def api_name(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))


def versions(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def client_apis() -> Iterator[ApiKey]:
    return (key for key in ApiKey if key not in BETWEEN_BROKERS)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(heads), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def readme_part() -> str:
    served = [key for key in client_apis() if key in REGISTRY]
    return (
        f"{len(served)} of the {len(list(client_apis()))} APIs that clients and tools of Kafka 4.3 use, each in every "
        "version that Kafka 4.3 serves: [docs/apis.md](docs/apis.md) lists them. ApiVersions offers no "
        "others.\n"
    )


def api_document() -> str:
    def row(key: ApiKey) -> tuple[str, ...]:
        handler = REGISTRY.get(key)
        declared = request_type(key).versions
        served = versions(*handler.versions) if handler else "not yet"
        advertised = versions(*handler.advertised) if handler else ""
        return str(key.value), api_name(key), versions(*declared), served, advertised

    return (
        "# The APIs of Kafka 4.3, and which are served\n\n"
        "Written by `make docs` from the message declarations and the registry of handlers. *Declared*: the "
        "versions that Kafka 4.3's message definition has, unstable ones included; *served*: the versions "
        "that Barnabas answers; *advertised*: the versions in ApiVersions, which are more only for Produce "
        "(librdkafka takes the absence of its old versions as a reason not to compress). "
        "GetTelemetrySubscriptions and PushTelemetry are advertised where the HTTP port is on.\n\n"
        + table(("key", "API", "declared", "served", "advertised"), (row(key) for key in client_apis()))
        + "\nNot served, since only brokers and controllers send them to each other: "
        + ", ".join(api_name(key) for key in sorted(BETWEEN_BROKERS))
        + ".\n"
    )


def with_pipeline_commands(path: Path) -> str:
    """The document with the pipeline's commands and their options; it needs neither PySpark nor Java."""
    before, rest = path.read_text().split(BEGIN_COMMANDS)
    _, after = rest.split(END)
    context = click.Context(pipeline)
    commands = {name: pipeline.get_command(context, name) for name in pipeline.list_commands(context)}
    parts = [
        render_command(f"pipeline {name}", each, left_out=())
        for name, each in commands.items()
        if each is not None
    ]
    return before + BEGIN_COMMANDS + "\n" + "\n".join(parts) + "\n" + END + after


def with_api_checks(path: Path) -> str:
    """The document with the table of what each API asks the authorizer."""
    before, rest = path.read_text().split(BEGIN_CHECKS)
    _, after = rest.split(END)

    def asked(check: Check) -> str:
        resource = check.resource_type.name.replace("_", " ").lower()
        return f"{check.operation.name} {resource}{' (quiet)' if check.quiet else ''}"

    def row(key: ApiKey, checks: ApiChecks) -> tuple[str, ...]:
        whole = [asked(gate.check) for gate in checks.gates]
        single = [asked(check) for check in checks.checks]
        return api_name(key), "; ".join(whole + single) or "nothing", checks.effect

    rows = (row(key, API_CHECKS[key]) for key in sorted(API_CHECKS))
    return before + BEGIN_CHECKS + table(("API", "asks for", "where it is denied"), rows) + END + after


def documents() -> dict[Path, str]:
    """The text of each generated file."""
    handlers.register_all()
    readme = (ROOT / "README.md").read_text()
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return {
        ROOT / "README.md": figures.rewritten(
            before + BEGIN + readme_part() + END + after, results.load_all()
        ),
        ROOT / "docs" / "apis.md": api_document(),
        ROOT / "docs" / "authorization.md": with_api_checks(ROOT / "docs" / "authorization.md"),
        ROOT / "docs" / "cli.md": render_commands(),
        ROOT / "docs" / "configuration.md": render(),
        ROOT / "docs" / "pipeline.md": with_pipeline_commands(ROOT / "docs" / "pipeline.md"),
        ROOT / "docs" / "performance.md": results.render(),
        results.targets_path(): results.render_targets() or "",
    }


def main() -> int:
    stale = {
        path: text for path, text in documents().items() if not path.exists() or path.read_text() != text
    }
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale.items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
