"""`barnabas delete-records`: kafka-delete-records."""

from __future__ import annotations

from barnabas.cli.admin.calls.offsets import delete_records as delete_before
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.files import read_partitions
from barnabas.cli.admin.options import FILE, ParsedOptions, admin_command, option, session


@admin_command("delete-records", short_help="Delete the records of partitions before an offset.")
@option(
    "--offset-json-file",
    'The new log start offsets: {"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}; '
    "-1 is the end.",
    kind=FILE,
    metavar="FILE",
)
def delete_records(given: ParsedOptions) -> None:
    """Delete the records of partitions before an offset: kafka-delete-records."""
    given.need("offset-json-file")
    path = given.path("offset-json-file")
    assert path is not None
    with session(given) as (client, out):
        before = {each.partition: each.integer("offset", path) for each in read_partitions(path)}
        out.line("Executing records delete operation")
        results = delete_before(client, before)
        out.line("Records delete operation completed:")
        for partition, result in results.items():
            if isinstance(result, AdminError):
                out.result("partition", str(partition), "delete-records", result)
                out.failed(str(result))
            else:
                message = f"low watermark {result}"
                out.result("partition", str(partition), "delete-records", message=message)
                out.line(f"partition: {partition}\tlow_watermark: {result}")
