"""Options that several commands about canaries take."""

from pathlib import Path

import click

noises = click.option(
    "--noise",
    type=click.Choice(["any", "gaussian", "independent-gaussian"]),
    default="any",
    show_default=True,
    help="What is supposed about the training: nothing; that its trade-off curve is that of "
    "Gaussian noise; or also that canaries do not interact.",
)
stated = (
    click.option("--epsilon", type=float, required=True, help="The ε that is stated."),
    click.option("--delta", type=float, required=True, help="The δ of the same statement."),
)
run_folder = click.option(
    "--run", type=click.Path(path_type=Path), help="Run folder. Default: a new one in runs/."
)
fails_on = click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    type=click.Choice(["contradicted", "undecidable"]),
    help="Exit with 3 when this is the verdict; with 4 when contradicted is asked for and the "
    "number of canaries cannot decide it. Repeatable.",
)
formats = click.option(
    "--format",
    "shape",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json prints one object with all figures.",
)


records_each = click.option(
    "--records-each",
    type=int,
    default=1,
    show_default=True,
    help="Records of each canary. From 2 on a canary is a person, and ε is for one person.",
)
unit = click.option(
    "--unit",
    type=click.Choice(["record", "person"]),
    default="record",
    show_default=True,
    help="Who the statement is for. What is stated for a record is turned into what it promises a "
    "canary with several.",
)
