"""Decaf's table III: users of MNIST."""

from divulge.experiments.decaf_rows import MNIST, users_table

TABLE = users_table(
    "III", "ten users of MNIST", tuple(MNIST.values())[:3], data="mnist", records=1200
)
