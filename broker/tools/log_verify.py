"""`barnabas log verify`."""

import click


@click.group()
def log() -> None:
    """Look into log directories."""
