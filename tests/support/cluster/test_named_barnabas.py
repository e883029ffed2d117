"""In processes of their own, whose look-ups may be changed."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.cluster.names import hosts_of
from tests.support.cluster.nodes import ROOT

PRELUDE = f"""
import asyncio, socket, sys
from tests.support.cluster.named_barnabas import resolve_by
resolve_by({hosts_of(1, [1, 2])!r})
port = int(sys.argv[1])
"""
WAYS = {
    "socket": "found = socket.create_connection(('n2.test', port)).getpeername()",
    "getaddrinfo": "found = socket.getaddrinfo('n2.test', port, type=socket.SOCK_STREAM)[0][4]",
    "asyncio": """
async def dial():
    _, writer = await asyncio.open_connection('n2.test', port)
    return writer.get_extra_info('peername')
found = asyncio.run(dial())
""",
    "uvloop": """
import uvloop
async def dial():
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, 'n2.test', port)
    return transport.get_extra_info('peername')
found = uvloop.run(dial())
""",
    "uvloop by keyword": """
import uvloop
async def dial():
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host='n2.test', port=port)
    return transport.get_extra_info('peername')
found = uvloop.run(dial())
""",
    "uvloop look-up": """
import uvloop
async def look():
    return (await asyncio.get_running_loop().getaddrinfo('n2.test', port, type=socket.SOCK_STREAM))[0][4]
found = uvloop.run(look())
""",
}


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.1.2.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_name_is_looked_up_in_the_table(way: str, port: int) -> None:
    found = run(f"{PRELUDE}\n{way}\nprint(*found)", port)
    assert found == f"127.1.2.1 {port}"


def test_other_names_are_left_to_the_system(port: int) -> None:
    found = run(f"{PRELUDE}\nprint(socket.getaddrinfo('127.0.0.1', port)[0][4][0])", port)
    assert found == "127.0.0.1"


def run(program: str, port: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(port)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
