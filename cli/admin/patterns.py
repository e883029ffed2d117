"""Regular expressions for topics, as Kafka's tools take them (`TopicFilter.IncludeList`)."""

from __future__ import annotations

import re
import warnings

from barnabas.cli.admin.names import INTERNAL_TOPICS


class TopicPattern:
    """A regular expression that has to fit the whole name; commas mean "or".

    Blanks and the quotes around it are dropped. Raises ValueError for one that cannot be compiled; what Java's
    expressions can and Python's cannot (\\p{...}) belongs to these.
    """

    def __init__(self, text: str) -> None:
        self.text = re.sub(
            r"[\"']+$", "", re.sub(r"^[\"']+", "", text.strip().replace(",", "|").replace(" ", ""))
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of what "[[" may mean one day
                self._pattern = re.compile(self.text)
        except re.error as error:
            raise ValueError(f"{self.text!r} is no regular expression: {error}") from None

    def allows(self, topic: str, *, exclude_internal: bool = False) -> bool:
        """Whether this topic is meant."""
        return self._pattern.fullmatch(topic) is not None and not (
            exclude_internal and topic in INTERNAL_TOPICS
        )
