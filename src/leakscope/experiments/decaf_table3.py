"""Decaf's table III: users of MNIST."""

from leakscope.experiments.decaf_rows import BEST, FEW, MNIST, users_table

TABLE = users_table(
    "III",
    "ten users of MNIST",
    tuple(MNIST.values())[:3],
    extra={
        "leakscope, refined, adadelta, default number of virtual clients": {
            "attack": BEST | {"clients": 240}
        },
        **FEW,
    },
    data="mnist",
    records=1200,
)
