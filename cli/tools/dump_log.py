"""`barnabas dump-log`: the content of the files of a partition, in the lines of Kafka's DumpLogSegments or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TextIO

import click

from barnabas.cli.exit_codes import EXIT_FAILED
from barnabas.cli.tools.dump_log_decoders import (
    DECODER_CLASSES,
    DEFAULT_DECODER_CLASS,
    Decoder,
    cluster_metadata_decoder,
    offsets_decoder,
    plain_decoder,
    remote_log_metadata_decoder,
    share_group_state_decoder,
    transaction_log_decoder,
)
from barnabas.cli.tools.dump_log_files import MAX_INT32, Dump, Options
from barnabas.cli.tools.dump_log_json import HELP as JSON_HELP
from barnabas.cli.tools.dump_log_json import JsonPrinter
from barnabas.cli.tools.dump_log_text import TextPrinter
from barnabas.storage.env import RealEnv

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_CHARACTERS: Final = 1 << 16
_SEGMENT_SUFFIXES: Final = (".log", ".checkpoint")
_INDEX_SUFFIXES: Final = (".index", ".timeindex")

HELP: Final = f"""\
Print the content of the files of a partition, as Apache Kafka's kafka-dump-log.sh does.

FILE is a .log, .index, .timeindex, .txnindex, .snapshot or .checkpoint (a KRaft snapshot), or a partition's
directory: all its segments and snapshots then, or with --verify-index-only and --index-sanity-check all its indexes.
Nothing is changed, locked or repaired; a broker may use the files meanwhile.

{JSON_HELP}
\b
Exit codes:
  0  everything could be read; mismatches are in the output
  1  something could not be read; the dump continued after it if possible, and barnabas log verify finds all damage
  2  the command line is wrong
"""

_CLASS_HELP: Final = (
    "The Java class that decodes {}: StringDecoder (default), IntegerDecoder, LongDecoder, or DefaultDecoder "
    "for hex digits, in org.apache.kafka.tools.api. Other Java classes cannot be used."
)


@click.command("dump-log", help=HELP, short_help="Print the content of the files of a partition.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--files",
    "lists",
    multiple=True,
    metavar="FILE,FILE,...",
    help="Files, separated by commas as for Kafka's tool. May be repeated.",
)
@click.option(
    "--print-data-log", is_flag=True, help="Also print keys and values. Any decoder option implies it."
)
@click.option("--deep-iteration", is_flag=True, help="Also print each record. Printing data implies it.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing their entries.")
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Check indexes only as a broker does at startup to decide whether to rebuild them.",
)
@click.option(
    "--max-message-size",
    type=click.IntRange(0, MAX_INT32),
    default=5 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="The largest batch to which an .index entry may point.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0, MAX_INT32),
    default=MAX_INT32,
    metavar="BYTES",
    help="Read only the batches within the first BYTES of each file.",
)
@click.option(
    "--skip-record-metadata",
    is_flag=True,
    help="Print only keys and values of records; control records become empty lines.",
)
@click.option("--offsets-decoder", is_flag=True, help="Decode records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode records of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode records of __cluster_metadata.")
@click.option(
    "--remote-log-metadata-decoder", is_flag=True, help="Decode records of __remote_log_metadata, as JSON."
)
@click.option("--share-group-state-decoder", is_flag=True, help="Decode records of __share_group_state.")
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value=DEFAULT_DECODER_CLASS,
    metavar="[CLASS]",
    help=_CLASS_HELP.format("keys"),
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value=DEFAULT_DECODER_CLASS,
    metavar="[CLASS]",
    help=_CLASS_HELP.format("values"),
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as described above.")
def dump_log(
    *,
    files: tuple[str, ...],
    lists: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_message_size: int,
    max_bytes: int,
    skip_record_metadata: bool,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    as_json: bool,
    **decoders: bool,
) -> None:
    names = [*_split(lists), *files]
    if not names:
        raise click.UsageError("neither FILE nor --files is given")
    classes = (key_decoder_class, value_decoder_class)
    prints = print_data_log or any(decoders.values()) or classes != (None, None)
    options = Options(
        decode=_decoder(decoders, key_decoder_class, value_decoder_class),
        print_data=prints,
        deep=deep_iteration or prints,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_message_size=max_message_size,
        max_bytes=max_bytes,
        skip_record_metadata=skip_record_metadata,
    )
    suffixes = _INDEX_SUFFIXES if verify_index_only or index_sanity_check else _SEGMENT_SUFFIXES
    sys.exit(run(names, suffixes, options, as_json=as_json))


def run(names: Iterable[str], suffixes: tuple[str, ...], options: Options, *, as_json: bool) -> int:
    """Dumps the files, and of directories those with the suffixes; the exit code.

    Ends without a message if the output is closed.
    """
    out, err = Stream(sys.stdout), Stream(sys.stderr)
    printer = JsonPrinter(out.write) if as_json else TextPrinter(out.write, err.write)
    dump = Dump(RealEnv(), options, printer)
    try:
        for name in names:
            try:
                paths = _expand(name, suffixes)
            except OSError as error:
                printer.problem(name, error.strerror or str(error))
                continue
            for path in paths:
                dump.file(path)
        printer.report(dump.report)
        out.flush()
        err.flush()
    except BrokenPipeError:
        # Otherwise the interpreter reports the same error when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAILED if printer.problems else 0


class Stream:
    """Buffers text for a stream and writes it as UTF-8."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._parts: list[str] = []
        self._characters = 0

    def write(self, text: str) -> None:
        self._parts.append(text)
        self._characters += len(text)
        if self._characters >= FLUSH_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        # File names are bytes; those that are not UTF-8 become \udcff, which is also valid JSON.
        data = "".join(self._parts).encode("utf-8", "backslashreplace")
        self._parts.clear()
        self._characters = 0
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.buffer.flush()


def _split(lists: Iterable[str]) -> Iterator[str]:
    """The names in --files; empty ones at the end of a list do not count, as in Java."""
    for text in lists:
        yield from text.rstrip(",").split(",")


def _expand(name: str, suffixes: tuple[str, ...]) -> list[str]:
    """The file, or of a directory the files with one of the suffixes, in the order of their names. Raises OSError."""
    if not os.path.isdir(name):
        return [name]
    return [os.path.join(name, found) for found in sorted(os.listdir(name)) if found.endswith(suffixes)]


def _decoder(flags: dict[str, bool], key_class: str | None, value_class: str | None) -> Decoder:
    """The first decoder of the command line in Kafka's order; text by default."""
    ordered: tuple[tuple[str, Callable[[], Decoder]], ...] = (
        ("offsets_decoder", offsets_decoder),
        ("transaction_log_decoder", transaction_log_decoder),
        ("cluster_metadata_decoder", cluster_metadata_decoder),
        ("remote_log_metadata_decoder", remote_log_metadata_decoder),
        ("share_group_state_decoder", share_group_state_decoder),
    )
    for name, make in ordered:
        if flags[name]:
            return make()
    classes = key_class or DEFAULT_DECODER_CLASS, value_class or DEFAULT_DECODER_CLASS
    for name in classes:
        if name not in DECODER_CLASSES:
            known = ", ".join(DECODER_CLASSES)
            raise click.UsageError(f"{name} needs Java and cannot be used; available are {known}")
    return plain_decoder(*classes)
