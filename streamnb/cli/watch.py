"""x."""

import click


@click.command()
def watch():
    """X."""
