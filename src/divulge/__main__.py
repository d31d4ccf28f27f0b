"""``python -m divulge``: the command line."""

from divulge.cli.main import main

main(prog_name="divulge")
