"""Damaged files of every kind, given to what reads them.

`formats` makes small files with the real writers, `mutations` damages them, `worker` reads them in
a process of its own within limits, and `search` looks for what is neither read nor refused. What
it found stands in ``corpus/`` for good, and `test_fuzz` reads it again.

    python -m tests.fuzz --seed 1 --count 200
"""
