"""RAIFLE's table VII: search engines."""

from divulge.experiments.raifle_users import COLUMNS, SEARCHES, SEEDS, UNITS
from divulge.experiments.table import Row, Table

MQ2007 = {
    (0, False): (0.87, 0.76, 0.66, 0.95, 0.84, 0.71),
    (0, True): (1.00, 0.98, 0.82, 1.00, 0.98, 0.88),
    (4, False): (0.78, 0.66, 0.57, 0.86, 0.70, 0.60),
    (4, True): (1.00, 0.99, 0.95, 1.00, 1.00, 0.98),
    (8, False): (0.77, 0.64, 0.56, 0.86, 0.68, 0.59),
    (8, True): (1.00, 1.00, 0.99, 1.00, 1.00, 1.00),
    (16, False): (0.75, 0.60, 0.53, 0.82, 0.61, 0.55),
    (16, True): (1.00, 1.00, 1.00, 1.00, 1.00, 1.00),
}
MSLR = {
    (0, False): (0.54, 0.51, 0.50, 0.55, 0.51, 0.51),
    (0, True): (1.00, 0.98, 0.80, 1.00, 0.97, 0.86),
    (4, False): (0.52, 0.50, 0.50, 0.52, 0.51, 0.50),
    (4, True): (0.98, 0.95, 0.87, 0.99, 0.97, 0.93),
    (8, False): (0.51, 0.50, 0.50, 0.51, 0.50, 0.50),
    (8, True): (0.99, 0.96, 0.91, 1.00, 0.99, 0.96),
    (16, False): (0.51, 0.50, 0.50, 0.51, 0.50, 0.51),
    (16, True): (0.97, 0.94, 0.91, 0.99, 0.98, 0.96),
}
HABITS = ("informational", "navigational")
_HONEST = "as they are"
DATA = (("mq2008", MQ2007, (4, 8, 16)), ("mslr", MSLR, (12, 24, 48)))


def _name(data: str, hidden: int, items: str, habit: str, queries: int) -> str:
    return f"{data}, {hidden or 'no'} hidden, {items}, {habit}, {queries} queries"


TABLE = Table(
    title="RAIFLE: clicks of users of a search engine",
    source="Pham et al. 2024, table VII",
    columns=COLUMNS,
    rows=tuple(
        Row(
            _name(data, hidden, "noise" if manipulated else _HONEST, habit, queries),
            {
                "data": data,
                "hidden": hidden,
                "habit": habit,
                "queries": queries,
                "manipulated": manipulated,
                "attack": {"name": "raifle"},
            },
            {"AUC": paper[3 * HABITS.index(habit) + place]},
        )
        for data, published, counts in DATA
        for (hidden, manipulated), paper in published.items()
        for habit in HABITS
        for place, queries in enumerate(counts)
    ),
    work="divulge.experiments.raifle_users:searched",
    units=UNITS,
    pairs=tuple(
        (_name(data, hidden, "noise", habit, queries), _name(data, hidden, _HONEST, habit, queries))
        for data, published, counts in DATA
        for hidden, manipulated in published
        if manipulated
        for habit in HABITS
        for queries in counts
    ),
    seeds=SEEDS,
    minutes={"small": 2, "medium": 12, "full": 45},
    differs=SEARCHES,
)
