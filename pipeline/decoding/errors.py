"""What can be wrong with a value, with a schema, or with the registry that should know it."""


class MalformedValueError(Exception):
    """A value is not what its schema says; the message says where, for whoever looks into the quarantine."""


class UnknownSchemaError(Exception):
    """A value names a schema id that is not known (yet)."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema id {schema_id} is not known")
        self.schema_id = schema_id


class SchemaError(ValueError):
    """A schema cannot be used: it is no schema, or has no columns that would hold its values."""


class RegistryError(OSError):
    """The schema registry did not answer as a registry does. Nothing is known then, so nothing may be decided."""
