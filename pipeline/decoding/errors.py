"""Errors of values, of schemas, and of the schema registry."""


class MalformedValueError(Exception):
    """A value does not match its schema; the message says where, for readers of the quarantine."""


class UnknownSchemaError(Exception):
    """A value names a schema id that is not known (yet)."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema id {schema_id} is not known")
        self.schema_id = schema_id


class SchemaError(ValueError):
    """A schema cannot be used: it is malformed, or no columns can hold its values."""


class RegistryError(OSError):
    """The schema registry gave no valid answer; the batch must not be decided without it."""
