"""The codec has two engines, one of which exists twice; the tests of the codec run on each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol import codec, codec_engine, codec_generated, codec_program
from tests.support.loops import in_form


@pytest.fixture(params=["generated", "plain", "compiled"], scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has `protocol.codec` use one of them: generated Python, or the engine as Python or compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_engine", lambda: _module(request.param))
        patch.setattr(codec, "_decoders", {})
        patch.setattr(codec, "_encoders", {})
        yield


def _module(name: str) -> Any:
    if name == "generated":
        return codec_generated
    in_form(codec_engine, name)
    if name == "compiled":
        return codec_program
    program = in_form(codec_program, "plain")
    program.engine = in_form(codec_engine, "plain")
    return program
