"""Define RAIFLE's tables V to XII and XV: recommenders, search engines and images."""

from typing import Any

from divulge.reproduce.papers.raifle.images import (
    DIFFERS,
    IMAGE_COLUMNS,
    IMAGE_UNITS,
    MANIPULATIONS,
    MODELS,
    Manipulation,
)
from divulge.reproduce.papers.raifle.study import COLUMNS, FEWER, SEARCHES, SEEDS, UNITS
from divulge.reproduce.table import Row, Table

TABLE_10_EPSILONS = (1.0, 20.0, 100.0, 500.0, None)

TABLE_10_PAPER = {
    (0, "informational"): (0.228, 0.280, 0.298, 0.301, 0.315),
    (0, "navigational"): (0.225, 0.294, 0.310, 0.309, 0.328),
    (16, "informational"): (0.223, 0.226, 0.218, 0.228, 0.282),
    (16, "navigational"): (0.227, 0.243, 0.256, 0.263, 0.291),
}

TABLE_10_NOTE = (
    "43 training and 43 test queries of MSLR-WEB10K's fold 1 instead of 6,000 and 2,000, hence one "
    "round of updates: its figures cannot be those of the paper. MQ2008, with 471 training "
    "queries, stands beside it without published figures."
)


TABLE_10 = Table(
    title="RAIFLE: NDCG@10 of rankers under local differential privacy",
    source="Pham et al. 2024, table X",
    data=("letor-mq2008", "mslr-web10k-sample"),
    columns=("NDCG@10",),
    rows=tuple(
        Row(
            f"{data}, {hidden or 'no'} hidden, {habit}, "
            f"{'no noise' if epsilon is None else f'ε = {epsilon:g}'}",
            {"data": data, "hidden": hidden, "habit": habit, "epsilon": epsilon},
            {"NDCG@10": value} if data == "mslr" else {},
        )
        for data in ("mslr", "mq2008")
        for (hidden, habit), published in TABLE_10_PAPER.items()
        for epsilon, value in zip(TABLE_10_EPSILONS, published, strict=True)
    ),
    work="divulge.reproduce.papers.raifle.study:measure_ranking",
    units="test queries",
    pairs=tuple(
        (f"{about}, ε = {epsilon:g}", f"{about}, no noise")
        for about in (
            f"{data}, {hidden or 'no'} hidden, {habit}"
            for data in ("mslr", "mq2008")
            for hidden, habit in TABLE_10_PAPER
        )
        for epsilon in TABLE_10_EPSILONS
        if epsilon is not None
    ),
    seeds={"small": 3, "paper": 10},
    minutes={"small": 1, "paper": 3},
    differs={
        "small": f"3 seeds. {TABLE_10_NOTE}",
        "paper": TABLE_10_NOTE,
    },
)

PARTICIPANTS = (10, 100, 500, 1000)

TABLE_11_PAPER: dict[tuple[int, float | None], tuple[float | None, ...]] = {
    (0, 700.0): (0.79, 0.64, 0.56, 0.54),
    (0, 500.0): (0.75, 0.60, 0.55, 0.54),
    (0, 300.0): (0.71, 0.57, 0.54, 0.53),
    (0, 100.0): (0.61, 0.54, None, 0.51),
    (16, 700.0): (0.81, 0.63, 0.56, 0.54),
    (16, 500.0): (0.77, 0.60, 0.54, 0.53),
    (16, 300.0): (0.73, 0.58, 0.52, 0.51),
    (16, 100.0): (0.61, 0.54, 0.51, 0.51),
    (0, None): (1.00, 1.00, 1.00, 1.00),
    (16, None): (1.00, 1.00, 1.00, 1.00),
}
"""Published AUC for each number of participants, by hidden units and ε; None where our copy of the
paper cannot be read."""


_SUM_NOTE = "The others' items are 0, so the sum is the target's update and the noise of all."


TABLE_11 = Table(
    title="RAIFLE: a user singled out of a secure sum",
    source="Pham et al. 2024, table XI",
    data=("letor-mq2008",),
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{hidden or 'no'} hidden, {'no noise' if epsilon is None else f'ε = {epsilon:g}'}, "
            f"{many} participants",
            {
                "data": "mq2008",
                "hidden": hidden,
                "habit": "informational",
                "queries": 4,
                "manipulated": True,
                "attack": {"name": "raifle"},
                "epsilon": epsilon,
                "secure_sum": {"participants": many, "times": 4},
            },
            {} if value is None else {"AUC": value},
        )
        for (hidden, epsilon), published in TABLE_11_PAPER.items()
        for many, value in zip(PARTICIPANTS, published, strict=True)
    ),
    work="divulge.reproduce.papers.raifle.study:measure_search",
    units=UNITS,
    seeds=SEEDS,
    minutes={"small": 1, "paper": 13},
    differs={
        "small": f"MQ2008 for MQ2007; 96 users a row. {_SUM_NOTE}",
        "paper": f"MQ2008 for MQ2007; 800 users a row. {_SUM_NOTE}",
    },
)

TABLE_12_PAPER = {"cifar-network": (0.70, 25.80), "efficientnet-lite0": (0.76, 28.00)}

TABLE_12_BESIDE = {"cifar-network": "ResNet18", "efficientnet-lite0": "MNASNet 1.3"}

TABLE_12_COLUMNS = ("SSIM", "PSNR")


TABLE_12 = Table(
    title="RAIFLE: manipulated images beside the originals",
    source="Pham et al. 2024, table XII",
    data=("cifar10", "vision-extractor"),
    columns=TABLE_12_COLUMNS,
    rows=tuple(
        Row(
            f"{model}, {manipulation}"
            + (f" (paper: {TABLE_12_BESIDE[model]})" if published else ""),
            {"model": model, "manipulation": manipulation},
            dict(zip(TABLE_12_COLUMNS, TABLE_12_PAPER[model], strict=True)) if published else {},
        )
        for model in MODELS
        for manipulation, published in (("fgsm", False), ("raifle", True))
    ),
    work="divulge.reproduce.papers.raifle.images:measure_image_quality",
    units="images, and versions are averaged within each",
    kinds={"PSNR": "normal"},
    seeds={"small": 1, "paper": 1},
    minutes={"small": 2, "paper": 600},
    differs=DIFFERS,
    smallest={"SSIM": -1.0},
    largest={"PSNR": 100.0},
    keeps=True,
    deviations=True,
)

TABLE_15_PAPER: dict[tuple[float, Manipulation], tuple[int, ...]] = {
    (500.0, "none"): (597, 561, 535, 573, 546, 525, 599, 555, 534, 616, 573, 539),
    (500.0, "raifle"): (605, 568, 541, 584, 554, 531, 605, 562, 541, 627, 584, 543),
    (100.0, "none"): (549, 527, 516, 531, 520, 511, 545, 524, 514, 550, 533, 517),
    (100.0, "raifle"): (555, 535, 519, 537, 523, 513, 547, 526, 514, 554, 532, 519),
    (20.0, "none"): (518, 511, 505, 507, 505, 503, 517, 505, 505, 518, 509, 504),
    (20.0, "raifle"): (520, 510, 506, 514, 507, 504, 517, 508, 505, 518, 511, 506),
    (1.0, "none"): (499, 502, 500, 500, 499, 499, 504, 500, 501, 499, 503, 501),
    (1.0, "raifle"): (499, 504, 501, 503, 503, 503, 502, 501, 499, 501, 500, 500),
}  # fmt: skip
"""Published AUC of ResNet18 in thousandths, by ε and manipulation."""


TABLE_15 = Table(
    title="RAIFLE: upvotes of images under local differential privacy",
    source="Pham et al. 2024, table XV",
    data=("cifar10", "vision-extractor"),
    columns=IMAGE_COLUMNS,
    rows=tuple(
        Row(
            f"{model}, {manipulation}, ε = {epsilon:g}",
            {"model": model, "manipulation": manipulation, "epsilon": epsilon},
            {c: value / 1000 for c, value in zip(IMAGE_COLUMNS, published, strict=True)},
        )
        for model in MODELS
        for (epsilon, manipulation), published in TABLE_15_PAPER.items()
    ),
    work="divulge.reproduce.papers.raifle.images:measure_reconstruction",
    units=IMAGE_UNITS,
    pairs=tuple(
        (f"{model}, raifle, ε = {epsilon:g}", f"{model}, none, ε = {epsilon:g}")
        for model in MODELS
        for epsilon, manipulation in TABLE_15_PAPER
        if manipulation == "raifle"
    ),
    seeds={"small": 1, "paper": 1},
    minutes={"small": 3, "paper": 2400},
    differs={
        size: f"{text} The paper's figures are those of ResNet18." for size, text in DIFFERS.items()
    },
    keeps=True,
    deviations=True,
)

TABLE_5 = Table(
    title="RAIFLE: interactions of users of a recommender",
    source="Pham et al. 2024, table V",
    data=("ml-100k", "steam-200k"),
    columns=COLUMNS,
    rows=tuple(
        Row(data, {"data": data, "attack": {"name": "raifle"}}, {"AUC": paper})
        for data, paper in (("ml-100k", 0.998), ("steam-200k", 0.960))
    ),
    work="divulge.reproduce.papers.raifle.study:measure_recommender",
    units=UNITS,
    seeds=SEEDS,
    minutes={"small": 1, "paper": 8},
    differs={
        size: f"{text} The embedding method, not gradient matching." for size, text in FEWER.items()
    },
)

TABLE_6_PAPER = {
    ("interaction-search", 0.0): (0.593, 0.671),
    ("raifle", 0.0): (0.983, 0.923),
    ("interaction-search", 1.0): (0.215, 0.206),
    ("raifle", 1.0): (0.382, 0.316),
}


TABLE_6 = Table(
    title="RAIFLE and IMIA: decisions with and without IMIA's defence",
    source="Pham et al. 2024, table VI",
    data=("ml-100k", "steam-200k"),
    columns=COLUMNS,
    rows=tuple(
        Row(
            f"{name}, {data}, {'L1 defence' if l1 else 'no defence'}",
            {"data": data, "attack": {"name": name}, "l1": l1},
            {"F1": value},
        )
        for (name, l1), values in TABLE_6_PAPER.items()
        for data, value in zip(("ml-100k", "steam-200k"), values, strict=True)
    ),
    work="divulge.reproduce.papers.raifle.study:measure_recommender",
    units=UNITS,
    pairs=tuple(
        (f"raifle, {data}, {defence}", f"interaction-search, {data}, {defence}")
        for defence in ("no defence", "L1 defence")
        for data in ("ml-100k", "steam-200k")
    ),
    seeds=SEEDS,
    minutes={"small": 1, "paper": 160},
    differs={
        size: f"{text} IMIA is our reading of a description in words; the paper quotes its figures."
        for size, text in FEWER.items()
    },
)


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


def _row_name(data: str, hidden: int, items: str, habit: str, queries: int) -> str:
    return f"{data}, {hidden or 'no'} hidden, {items}, {habit}, {queries} queries"


TABLE_7 = Table(
    title="RAIFLE: clicks of users of a search engine",
    source="Pham et al. 2024, table VII",
    data=("letor-mq2008", "mslr-web10k-sample"),
    columns=COLUMNS,
    rows=tuple(
        Row(
            _row_name(data, hidden, "noise" if manipulated else _HONEST, habit, queries),
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
    work="divulge.reproduce.papers.raifle.study:measure_search",
    units=UNITS,
    pairs=tuple(
        (
            _row_name(data, hidden, "noise", habit, queries),
            _row_name(data, hidden, _HONEST, habit, queries),
        )
        for data, published, counts in DATA
        for hidden, manipulated in published
        if manipulated
        for habit in HABITS
        for queries in counts
    ),
    seeds=SEEDS,
    minutes={"small": 2, "paper": 45},
    differs=SEARCHES,
)

TABLE_8_PAPER = {
    "ResNet18": {
        "none": (1000, 916, 767, 921, 868, 771, 985, 945, 857, 999, 985, 924),
        "fgsm": (1000, 915, 766, 914, 857, 759, 981, 934, 841, 998, 977, 906),
        "raifle": (1000, 943, 772, 946, 920, 823, 993, 981, 922, 1000, 998, 978),
    },
    "MNASNet 1.3": {
        "none": (994, 895, 764, 936, 858, 754, 985, 926, 787, 996, 942, 775),
        "fgsm": (989, 885, 758, 930, 845, 742, 982, 913, 771, 994, 928, 755),
        "raifle": (1000, 939, 775, 940, 882, 791, 991, 965, 875, 999, 992, 924),
    },
}  # fmt: skip
"""Published AUC in thousandths, of the models with the fewest features and with the most."""

TABLE_8_BESIDE = dict(zip(MODELS, TABLE_8_PAPER, strict=True))


TABLE_8 = Table(
    title="RAIFLE: upvotes of images",
    source="Pham et al. 2024, table VIII",
    data=("cifar10", "vision-extractor"),
    columns=IMAGE_COLUMNS,
    rows=tuple(
        Row(
            f"{model}, {manipulation} (paper: {TABLE_8_BESIDE[model]})",
            {"model": model, "manipulation": manipulation},
            {
                c: p / 1000
                for c, p in zip(
                    IMAGE_COLUMNS, TABLE_8_PAPER[TABLE_8_BESIDE[model]][manipulation], strict=True
                )
            },
        )
        for model in MODELS
        for manipulation in MANIPULATIONS
    ),
    work="divulge.reproduce.papers.raifle.images:measure_reconstruction",
    units=IMAGE_UNITS,
    pairs=tuple(
        (
            f"{model}, {one} (paper: {TABLE_8_BESIDE[model]})",
            f"{model}, none (paper: {TABLE_8_BESIDE[model]})",
        )
        for model in MODELS
        for one in ("fgsm", "raifle")
    ),
    seeds={"small": 1, "paper": 1},
    minutes={"small": 3, "paper": 900},
    differs=DIFFERS,
    keeps=True,
    deviations=True,
)

TABLE_9_EPSILONS = (1.0, 20.0, 100.0, 500.0, None)

RECOMMENDERS = {
    "ml-100k": (0.50, 0.52, 0.56, 0.74, 1.00),
    "steam-200k": (0.50, 0.56, 0.72, 0.90, 0.96),
}

SEARCH_ENGINES = {
    ("mq2008", False): (0.50, 0.54, 0.57, 0.58, 0.66),
    ("mq2008", True): (0.50, 0.56, 0.66, 0.75, 0.82),
    ("mslr", False): (0.50, 0.50, 0.50, 0.50, 0.50),
    ("mslr", True): (0.50, 0.52, 0.58, 0.62, 0.80),
}


def _noise_label(epsilon: float | None) -> str:
    return "no noise" if epsilon is None else f"ε = {epsilon:g}"


def _row(name: str, epsilon: float | None, paper: float, **settings: Any) -> Row:
    settings |= {"attack": {"name": "raifle"}, "epsilon": epsilon}
    return Row(f"{name}, {_noise_label(epsilon)}", settings, {"AUC": paper})


TABLE_9 = Table(
    title="RAIFLE against local differential privacy",
    source="Pham et al. 2024, table IX",
    data=("ml-100k", "steam-200k", "letor-mq2008", "mslr-web10k-sample"),
    columns=COLUMNS,
    rows=(
        *(
            _row(data, epsilon, paper, data=data, setting="recommended")
            for data, published in RECOMMENDERS.items()
            for epsilon, paper in zip(TABLE_9_EPSILONS, published, strict=True)
        ),
        *(
            _row(
                f"{data}, {'noise handed out' if manipulated else 'as they are'}",
                epsilon,
                paper,
                setting="searched",
                data=data,
                hidden=0,
                habit="informational",
                queries=16 if data == "mq2008" else 48,
                manipulated=manipulated,
            )
            for (data, manipulated), published in SEARCH_ENGINES.items()
            for epsilon, paper in zip(TABLE_9_EPSILONS, published, strict=True)
        ),
    ),
    work="divulge.reproduce.papers.raifle.study:measure_setting",
    units=UNITS,
    pairs=tuple(
        (f"{data}, noise handed out, {noise}", f"{data}, as they are, {noise}")
        for data in ("mq2008", "mslr")
        for noise in map(_noise_label, TABLE_9_EPSILONS)
    ),
    seeds=SEEDS,
    minutes={"small": 1, "paper": 400},
    differs=SEARCHES,
)
