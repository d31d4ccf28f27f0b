"""``python -m leakscope``: the command line."""

from leakscope.cli import main

main(prog_name="leakscope")
