"""Regular expressions of RE2, compiled: what clients send is matched in time linear in the text, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from broker.coordinator.group.consumer.re2_syntax import Re2SyntaxError, check_syntax


@lru_cache(maxsize=256)
def full_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches `pattern`. Raises Re2SyntaxError for what re2j, as Kafka has it, does not take."""
    import re2  # not at every start: few brokers are ever asked

    check_syntax(pattern)
    options = re2.Options()
    options.log_errors = False
    try:
        fullmatch = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        raise Re2SyntaxError(str(error)) from None
    return lambda text: fullmatch(text) is not None
