"""The commands `barnabas wire show` and `barnabas wire decode`."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.exit_codes import EXIT_FAILED
from barnabas.cli.wire import inputs
from barnabas.cli.wire.layouts import UnknownNameError, find_api, find_message, message_types, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.cli.wire.frames import Frame
    from barnabas.protocol.api_keys import ApiKey


@click.group(short_help="Show the layout of messages, and decode captured bytes.")
def wire() -> None:
    """Show the layout of messages, and decode the bytes of requests and responses.

    \b
    barnabas wire show FetchRequest --version 13
    barnabas wire decode 0012000300000001000174000231023100 --json
    tcpdump -i lo -w - port 9092 | barnabas wire decode - --records
    barnabas wire decode --response --api Metadata --version 12 answer.bin
    """


@wire.command(short_help="Show the layout of a message.")
@click.argument("name", required=False)
@click.option("--version", type=int, help="The version; the latest without it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str | None, version: int | None, as_json: bool) -> None:
    """Show the fields of the message NAME in wire order: name, type, versions, tag, default.

    NAME is a request, a response, a header or a record of an internal topic. Without it all names are listed.

    \b
    Exit codes:
      0  shown
      2  the command line is wrong: unknown message or version
    """
    from barnabas.cli.wire import layouts

    if name is None:
        if version is not None:
            raise click.UsageError("--version needs the NAME of a message")
        _list_messages(as_json)
        return
    try:
        message = find_message(name)
        version = version_of(message, version)
    except UnknownNameError as error:
        raise click.UsageError(_sentence(error)) from None
    if as_json:
        click.echo(json.dumps(layouts.as_json(message, version)))
        return
    click.echo("\n".join(layouts.text_lines(message, version)))


def _list_messages(as_json: bool) -> None:
    for name, message in message_types().items():
        versions = str(message.versions)
        shown = {"type": "message", "name": name, "versions": versions, "api_key": message.api_key}
        click.echo(json.dumps(shown) if as_json else f"{name:45} {versions}")


@wire.command(short_help="Decode the bytes of requests and responses.")
@click.argument("source", metavar="[INPUT]", default="-")
@click.option(
    "--input",
    "kind",
    type=click.Choice(inputs.FORMATS),
    help="The format of INPUT; detected by default.",
)
@click.option(
    "--response", is_flag=True, help="The frames are responses, to requests of --api and --version."
)
@click.option("--api", metavar="NAME", help="The API of a response: its name or key.")
@click.option("--version", type=int, help="The version of the request that a response answers.")
@click.option("--port", type=click.IntRange(1, 65535), help="The broker's port, for a capture.")
@click.option("--records", "with_records", is_flag=True, help="List the records of each batch.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line for each frame.")
def decode(
    *,
    source: str,
    kind: str | None,
    response: bool,
    api: str | None,
    version: int | None,
    port: int | None,
    with_records: bool,
    as_json: bool,
) -> None:
    """Decode the bytes of requests and responses, field by field, and mark wrong bytes at their offsets.

    INPUT is a file, - for the standard input, or the hex or base64 text itself. A file holds hex, base64, raw bytes,
    or a capture of connections (pcap, pcapng). The input is one frame, or several frames with their size prefixes.
    In a capture each response is decoded by the API and version of its request.

    Numbers at the left are offsets in the input; in a capture, in the bytes that one end of the connection sent.

    \b
    Exit codes:
      0  all frames were decoded
      1  some frames have wrong bytes, which are marked
      2  the command line is wrong, or INPUT is not of its format
    """
    content = _content(source, kind)
    kind = kind or inputs.kind_of(content)
    request = _request_of(response, api, version)
    if kind != inputs.PCAP and port is not None:
        raise click.UsageError("--port is for captures")
    if kind == inputs.PCAP and request is not None:
        raise click.UsageError("--response is not for captures: they hold the request of each response")
    if kind == inputs.PCAP:
        frames = _captured(content, port, with_records)
    else:
        frames = _given(content, kind, request, with_records)
    sys.exit(_print(frames, as_json))


def _content(source: str, kind: str | None) -> bytes:
    """The bytes of a file or of the standard input, or the text of the command line."""
    if source == "-":
        return sys.stdin.buffer.read()
    with suppress(ValueError):  # a character that no file name has
        try:
            if Path(source).exists():
                return Path(source).read_bytes()
        except OSError as error:
            if len(source) < 256:  # longer text is hex, not the name of a file
                raise click.UsageError(f"{source} cannot be read: {error.strerror}") from None
    content = source.encode("utf-8", "surrogateescape")
    if (kind or inputs.kind_of_text(content)) not in {inputs.HEX, inputs.BASE64}:
        raise click.UsageError(f"{source[:60]!r} is not a file, and neither hex nor base64 of a frame")
    return content


def _request_of(response: bool, api: str | None, version: int | None) -> tuple[ApiKey, int] | None:
    """The API and version that --response needs."""
    if not response:
        if api is not None or version is not None:
            raise click.UsageError("--api and --version are for --response: the header of a request has both")
        return None
    if api is None or version is None:
        raise click.UsageError("--response needs --api and --version: a response has neither")
    from barnabas.protocol.api_keys import response_type

    try:
        key = find_api(api)
        return key, version_of(response_type(key), version)
    except UnknownNameError as error:
        raise click.UsageError(_sentence(error)) from None


def _given(
    content: bytes, kind: str, request: tuple[ApiKey, int] | None, with_records: bool
) -> Iterator[Frame]:
    from barnabas.cli.wire.frames import REQUEST, RESPONSE, Frame, decode_request, decode_response
    from barnabas.cli.wire.walking import Wrong

    try:
        data = inputs.decoded(content, kind)
    except inputs.InputError as error:
        raise click.UsageError(_sentence(error)) from None
    if not data:
        raise click.UsageError("the input is empty")
    for start, of_frame, missing in inputs.split(data, is_response=request is not None):
        if request is None:
            frame = decode_request(Frame(REQUEST, of_frame, start), with_records=with_records)
        else:
            frame = decode_response(Frame(RESPONSE, of_frame, start, *request), with_records=with_records)
        if missing:
            size = len(of_frame)
            expected, found = f"a frame of {size + missing} bytes", f"{size} bytes of it"
            frame.wrongs.append(Wrong(size, "(frame)", expected, found))
        yield frame


def _captured(content: bytes, port: int | None, with_records: bool) -> Iterator[Frame]:
    from barnabas.cli.wire.captures import CaptureError, packets
    from barnabas.cli.wire.exchanges import frames_of
    from barnabas.cli.wire.tcp import Traffic

    traffic = Traffic()
    problem = None
    try:
        traffic.add(packets(content))
    except CaptureError as error:
        problem = error
    connections = [
        each for each in traffic.connections if port is None or port in {end.port for end in each.ends}
    ]
    for connection in connections:
        yield from frames_of(connection, port=port, with_records=with_records)
    if traffic.unread:
        click.echo(
            f"Note: {traffic.unread} packets were skipped: IP fragments, or an unknown form.", err=True
        )
    if problem is not None:
        raise click.UsageError(_sentence(problem))
    if not connections:
        on_port = "" if port is None else f" with port {port}"
        raise click.UsageError(f"the capture has no TCP connection{on_port}")


def _print(frames: Iterable[Frame], as_json: bool) -> int:
    """Prints the frames; returns the exit code."""
    from barnabas.cli.wire import printing

    code = 0
    for number, frame in enumerate(frames):
        if as_json:
            click.echo(json.dumps(printing.as_json(frame)))
        else:
            click.echo("\n" * (number > 0) + "\n".join(printing.tree_lines(frame)))
        if frame.wrongs:
            code = EXIT_FAILED
    return code


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
