"""Decaf's table IV, and 2 auxiliary images a class as in figure 7: users of Fashion-MNIST."""

from divulge.experiments.decaf_rows import BRIEF, PUBLISHED, users_table

FEW = {
    "the paper's method, adadelta, 2 auxiliary images a class": PUBLISHED,
    "divulge, refined, adadelta, 2 auxiliary images a class": BRIEF,
}

TABLE = users_table(
    "IV",
    "ten users of Fashion-MNIST",
    (0.2625, 0.1213, 0.0808),
    "a quarter of the default number of virtual clients where there are 2 auxiliary images",
    extra={name: {"attack": attack, "auxiliary": 2} for name, attack in FEW.items()},
    data="fashion_mnist",
    records=1200,
)
