"""Decaf's table IV: users of Fashion-MNIST."""

from leakscope.experiments.decaf_rows import FEW, users_table

TABLE = users_table(
    "IV",
    "ten users of Fashion-MNIST",
    (0.2625, 0.1213, 0.0808),
    extra=FEW,
    data="fashion_mnist",
    records=1200,
)
