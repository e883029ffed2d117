"""Errors of record batches."""

from __future__ import annotations


class CorruptRecordError(Exception):
    """Damaged bytes: a bad length, magic, checksum or compressed stream.

    Kafka's CorruptRecordException; a client hears CORRUPT_MESSAGE.
    """


class DecompressedTooLargeError(CorruptRecordError):
    """A compressed batch that holds more than the reader is ready to unpack."""


class InvalidRecordError(Exception):
    """Intact bytes that break the rules of the record format, Kafka's InvalidRecordException.

    `record_errors` names the records at fault, as (index within the batch, message), and is empty when the
    batch as a whole is.
    """

    def __init__(self, message: str, record_errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.record_errors: list[tuple[int, str]] = record_errors or []


class UnsupportedCompressionError(Exception):
    """A compression codec that does not exist, or not in this record format."""
