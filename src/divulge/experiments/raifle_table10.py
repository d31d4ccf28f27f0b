"""RAIFLE's table X: what noise costs in ranking."""

from divulge.experiments.table import Row, Table

EPSILONS = (1.0, 20.0, 100.0, 500.0, None)
PAPER = {
    (0, "informational"): (0.228, 0.280, 0.298, 0.301, 0.315),
    (0, "navigational"): (0.225, 0.294, 0.310, 0.309, 0.328),
    (16, "informational"): (0.223, 0.226, 0.218, 0.228, 0.282),
    (16, "navigational"): (0.227, 0.243, 0.256, 0.263, 0.291),
}
TEXT = (
    "43 training and 43 test queries of MSLR-WEB10K's fold 1 instead of 6,000 and 2,000, hence one "
    "round of updates: its figures cannot be those of the paper. MQ2008, with 471 training "
    "queries, stands beside it without published figures."
)

TABLE = Table(
    title="RAIFLE: NDCG@10 of rankers under local differential privacy",
    source="Pham et al. 2024, table X",
    columns=("NDCG@10",),
    rows=tuple(
        Row(
            f"{data}, {hidden or 'no'} hidden, {habit}, "
            f"{'no noise' if epsilon is None else f'ε = {epsilon:g}'}",
            {"data": data, "hidden": hidden, "habit": habit, "epsilon": epsilon},
            {"NDCG@10": value} if data == "mslr" else {},
        )
        for data in ("mslr", "mq2008")
        for (hidden, habit), published in PAPER.items()
        for epsilon, value in zip(EPSILONS, published, strict=True)
    ),
    work="divulge.experiments.raifle_users:trained",
    units="test queries",
    pairs=tuple(
        (f"{about}, ε = {epsilon:g}", f"{about}, no noise")
        for about in (
            f"{data}, {hidden or 'no'} hidden, {habit}"
            for data in ("mslr", "mq2008")
            for hidden, habit in PAPER
        )
        for epsilon in EPSILONS
        if epsilon is not None
    ),
    seeds={"small": 3, "medium": 5, "full": 10},
    minutes={"small": 1, "medium": 2, "full": 3},
    differs={"small": f"3 seeds. {TEXT}", "medium": f"5 seeds. {TEXT}", "full": TEXT},
)
