"""The codec's engine, interpreted and compiled; the tests of the codec run on both forms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.protocol import codec
from tests.support.loops import codec_in_form


@pytest.fixture(params=["plain", "compiled"], scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make `protocol.codec` use the interpreted or the compiled engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "codec_program", codec_in_form(request.param))
        patch.setattr(codec, "_decoders", {})
        patch.setattr(codec, "_encoders", {})
        yield
