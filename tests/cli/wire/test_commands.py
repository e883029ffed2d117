"""The commands: options, exit codes, what they print."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cli.main import main
from barnabas.cli.wire.commands import wire as commands
from barnabas.cli.wire.inputs import FORMATS
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.cli.wire.captured import pcap, pcapng, tcp_connection
from tests.cli.wire.frames_made import request, response, sized
from tests.protocol.samples import message_types

FRAME = request(HeartbeatRequest(group_id="shop"), 4)
RESPONSE = response(HeartbeatResponse(), 4)


def barnabas(*arguments: str | Path, given: bytes | None = None) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments], input=given)


def captured() -> list[bytes]:
    tcp = tcp_connection()
    return [*tcp.open(), tcp.request(sized(FRAME)), tcp.response(sized(RESPONSE))]


# ---- show


@pytest.mark.parametrize("message", message_types(), ids=lambda message: message.__name__)
def test_every_message_is_shown(message: type) -> None:
    if message.versions.high < message.versions.low:  # type: ignore[attr-defined]
        return
    text, shown = barnabas("show", message.__name__), barnabas("show", message.__name__, "--json")
    assert (text.exit_code, shown.exit_code) == (0, 0), text.output
    assert json.loads(shown.stdout)["name"] == message.__name__


def test_show_of_a_version() -> None:
    assert "HeartbeatRequest version 2\n" in barnabas("show", "heartbeatrequest", "--version", "2").stdout
    assert json.loads(barnabas("show", "HeartbeatRequest", "--json").stdout)["version"] == 4


def test_show_lists_all() -> None:
    names = [line.split()[0] for line in barnabas("show").stdout.splitlines()]
    assert names == [message.__name__ for message in message_types()]
    assert [json.loads(line)["name"] for line in barnabas("show", "--json").stdout.splitlines()] == names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Heartbeat"], "similar: HeartbeatRequest, HeartbeatResponse"),
        (["HeartbeatRequest", "--version", "5"], "HeartbeatRequest has versions 0-4, not 5"),
        (["--version", "5"], "--version needs the NAME"),
    ],
)
def test_show_of_an_unknown_message(arguments: list[str], said: str) -> None:
    result = barnabas("show", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


# ---- decode


@pytest.mark.parametrize("content", [FRAME, sized(FRAME), FRAME.hex().encode(), b64encode(FRAME)])
def test_decode_of_files_and_of_the_standard_input(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "frame"
    file.write_bytes(content)
    for result in (
        barnabas("decode", file),
        barnabas("decode", given=content),
        barnabas("decode", "-", given=content),
    ):
        assert result.exit_code == 0, result.output
        assert 'group_id: "shop"' in result.stdout


@pytest.mark.parametrize("text", [FRAME.hex(), FRAME.hex(" "), b64encode(FRAME).decode(), sized(FRAME).hex()])
def test_decode_of_the_command_line(text: str) -> None:
    (shown,) = barnabas("decode", text, "--json").stdout.splitlines()
    assert json.loads(shown)["body"]["group_id"] == "shop"


def test_decode_of_a_response() -> None:
    result = barnabas("decode", RESPONSE.hex(), "--response", "--api", "heartbeat", "--version", "4")
    assert result.exit_code == 0, result.output
    assert "error_code: 0 (NONE)" in result.stdout


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_decode_of_a_capture(make: type, tmp_path: Path) -> None:
    file = tmp_path / "capture"
    file.write_bytes(make(captured()))
    for arguments in ([], ["--port", "9092"], ["--input", "pcap"]):
        result = barnabas("decode", file, *arguments, "--json")
        assert result.exit_code == 0, result.output
        shown = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(each["direction"], each["api"], each["version"]) for each in shown] == [
            ("request", "Heartbeat", 4),
            ("response", "Heartbeat", 4),
        ]


def test_frames_of_a_connection_are_separated() -> None:
    text = barnabas("decode", given=pcap(captured())).stdout
    assert text.count("\n\n") == 1
    assert "10.0.0.1:50000 > 10.0.0.2:9092 request Heartbeat v4" in text


@pytest.mark.parametrize("data", [FRAME[:-2], FRAME + b"x", b"\x03\xe7" + FRAME[2:], sized(FRAME)[:-2]])
def test_frames_that_do_not_decode_are_exit_code_1(data: bytes) -> None:
    result = barnabas("decode", given=data)
    assert result.exit_code == 1
    assert "WRONG" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (["nosuchfile"], None, "is not a file, and neither hex nor base64"),
        (["zz", "--input", "hex"], None, "This is not hex"),
        (["zz", "--input", "raw"], None, "is not a file"),
        ([], b"", "the input is empty"),
        (["--api", "Fetch"], FRAME, "are for --response"),
        (["--response", "--api", "Fetch"], FRAME, "--response needs --api and --version"),
        (["--response", "--api", "Fech", "--version", "4"], FRAME, "similar: Fetch"),
        (["--response", "--api", "Fetch", "--version", "99"], FRAME, "4-18, not 99"),
        (
            ["--response", "--api", "Fetch", "--version", "4"],
            pcap(captured()),
            "--response is not for captures",
        ),
        (["--port", "9092"], FRAME, "--port is for captures"),
        (["--port", "1"], pcap(captured()), "no TCP connection with port 1"),
        ([], pcap([]), "no TCP connection"),
        (["--input", "pcap"], FRAME, "neither pcap nor pcapng"),
        ([], pcap(captured())[:-1], "ends within the packet"),
        (["/"], None, "cannot be read"),
    ],
)
def test_wrong_command_lines_and_inputs_are_exit_code_2(
    arguments: list[str], given: bytes | None, said: str
) -> None:
    result = barnabas("decode", *arguments, given=given)
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_a_damaged_capture_shows_the_frames_before_the_damage() -> None:
    tcp = tcp_connection()
    content = pcap([*tcp.open(), tcp.request(sized(FRAME)), tcp.response(sized(RESPONSE))])
    result = barnabas("decode", given=content[:-1])
    assert result.exit_code == 2
    assert "request Heartbeat v4" in result.stdout


def test_parts_of_packets_are_counted() -> None:
    packets = captured()
    fragment = bytearray(packets[-1])
    fragment[18 + 6] = 0x20
    result = barnabas("decode", given=pcap([*packets, bytes(fragment)]))
    assert result.exit_code == 0
    assert "1 packets were skipped: IP fragments" in result.stderr


@settings(max_examples=150)
@given(
    st.one_of(st.binary(max_size=80), st.binary(max_size=80).map(lambda tail: FRAME[:12] + tail)),
    st.sampled_from([*FORMATS, None]),
    st.sampled_from([[], ["--response", "--api", "fetch", "--version", "12"]]),
    st.booleans(),
)
def test_any_input_is_decoded_marked_or_rejected(
    data: bytes, kind: str | None, response: list[str], as_json: bool
) -> None:
    arguments = [
        *response,
        "--records",
        *(["--input", kind] if kind else []),
        *(["--json"] if as_json else []),
    ]
    result = barnabas("decode", *arguments, given=data)
    assert result.exit_code in {0, 1, 2}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if result.exit_code == 1:
        assert '"wrong": [{' in result.stdout or "WRONG" in result.stdout


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=60)), max_size=6), st.booleans())
def test_any_connection_is_decoded_marked_or_rejected(sent: list[tuple[bool, bytes]], opens: bool) -> None:
    tcp = tcp_connection()
    packets = tcp.open() if opens else []
    packets += [tcp.request(data) if is_request else tcp.response(data) for is_request, data in sent]
    result = barnabas("decode", "--records", given=pcap(packets))
    assert result.exit_code in {0, 1, 2}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


# ---- the command line


def test_wire_is_a_command_of_barnabas() -> None:
    result = CliRunner().invoke(main, ["wire", "show", "HeartbeatRequest"])
    assert result.exit_code == 0
    assert "wire" in CliRunner().invoke(main, ["--help"]).stdout


def test_serve_does_not_import_it() -> None:
    code = (
        "import sys, barnabas.cli.__main__, barnabas.cli.main;"
        "print('barnabas.cli.wire' in sys.modules, 'construct' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "False False"
