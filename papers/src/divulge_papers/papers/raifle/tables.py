"""Define RAIFLE's tables V to XV: recommenders, search engines and images."""

from collections.abc import Mapping
from functools import partial

from divulge._util.json import Settings
from divulge_papers.papers.raifle.image_values import IMAGE_AUC
from divulge_papers.papers.raifle.images import (
    DIFFERS,
    IMAGE_COLUMNS,
    IMAGE_UNITS,
    MANIPULATIONS,
    MODELS,
    Manipulation,
    Model,
)
from divulge_papers.papers.raifle.images import METHODS as IMAGE_METHODS
from divulge_papers.papers.raifle.study import COLUMNS, FEWER, METHODS, SEARCHES, SEEDS, UNITS
from divulge_papers.table import Row, Size, Table

_define_table = partial(
    Table,
    columns=COLUMNS,
    work="divulge_papers.papers.raifle.study:measure_setting",
    units=UNITS,
    seeds=SEEDS,
)
"""Define a table of recommenders or search engines by what differs from the others."""

ONCE: Mapping[Size, int] = {"small": 1, "paper": 1}

_define_image_table = partial(
    Table,
    data=("cifar10", "vision-extractor"),
    seeds=ONCE,
    keeps=True,
    deviations=True,
)
"""Define a table of images by what differs from the others."""

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


TABLE_10 = _define_table(
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
    work="divulge_papers.papers.raifle.study:measure_ranking",
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


def _noise_label(epsilon: float | None) -> str:
    return "no noise" if epsilon is None else f"ε = {epsilon:g}"


def _sum_name(hidden: int, epsilon: float | None, participants: int) -> str:
    return f"{hidden or 'no'} hidden, {_noise_label(epsilon)}, {participants} participants"


TABLE_11 = _define_table(
    title="RAIFLE: a user singled out of a secure sum",
    source="Pham et al. 2024, table XI",
    data=("letor-mq2008",),
    rows=tuple(
        Row(
            f"{_sum_name(hidden, epsilon, many)}, {method}",
            {
                "data": "mq2008",
                "hidden": hidden,
                "habit": "informational",
                "queries": 4,
                "manipulated": True,
                "attack": attack,
                "epsilon": epsilon,
                "participants": many,
            },
            {} if value is None else {"AUC": value},
        )
        for (hidden, epsilon), published in TABLE_11_PAPER.items()
        for many, value in zip(PARTICIPANTS, published, strict=True)
        for method, attack in METHODS.items()
    ),
    work="divulge_papers.papers.raifle.study:measure_search",
    pairs=tuple(
        (f"{_sum_name(*about, many)}, auto", f"{_sum_name(*about, many)}, match")
        for about in TABLE_11_PAPER
        for many in PARTICIPANTS
    ),
    minutes={"small": 2, "paper": 30},
    differs={size: f"{text} {_SUM_NOTE}" for size, text in SEARCHES.items()},
)

TABLE_12_PAPER = {
    "resnet": (0.70, 25.80),
    "regnet": (0.80, 29.36),
    "densenet": (0.77, 27.60),
    "mnasnet": (0.76, 28.00),
}

PAPER_MODELS = {
    "resnet": "resnet (paper: ResNet18)",
    "regnet": "regnet (paper: RegNet Y 800MF)",
    "densenet": "densenet (paper: DenseNet121)",
    "mnasnet": "mnasnet (paper: MNASNet 1.3)",
    "efficientnet-lite0": "efficientnet-lite0",
}
"""Names of the vision models in rows, with the model whose figures stand beside them."""

TABLE_12_COLUMNS = ("SSIM", "PSNR")


TABLE_12 = _define_image_table(
    title="RAIFLE: manipulated images beside the originals",
    source="Pham et al. 2024, table XII",
    columns=TABLE_12_COLUMNS,
    rows=tuple(
        Row(
            f"{PAPER_MODELS[model]}, {manipulation}",
            {"model": model, "manipulation": manipulation},
            dict(zip(TABLE_12_COLUMNS, TABLE_12_PAPER[model], strict=True))
            if manipulation == "raifle" and model in TABLE_12_PAPER
            else {},
            weight=30.0 if (model, manipulation) == ("efficientnet-lite0", "raifle") else 1.0,
        )
        for model in MODELS
        for manipulation in ("fgsm", "raifle")
    ),
    work="divulge_papers.papers.raifle.images:measure_image_quality",
    units="images, and versions are averaged within each",
    kinds={"PSNR": "normal"},
    minutes={"small": 4, "paper": 160},
    differs=DIFFERS,
    smallest={"SSIM": -1.0},
    largest={"PSNR": 100.0},
)


ALL_IMAGE_CELLS: Mapping[str, tuple[str, ...]] = {"all": IMAGE_COLUMNS}
"""A column with the users of all cells of a row: one cell has too few to show small differences."""

IMAGE_AUC_DIFFERS = {
    size: f"{text} Column `all` has the users of all twelve cells; the paper has no such figure. "
    "300 steps are too few for the small networks: with 3,000 `match` of linear rankers rises from "
    "0.817 to 0.991 (`python -m benchmarks raifle-images-descent`)."
    for size, text in DIFFERS.items()
}


def _image_auc(model: Model, manipulation: Manipulation, epsilon: float | None) -> dict[str, float]:
    """Published values of a row, where there are any."""
    values = IMAGE_AUC.get((epsilon, model, manipulation), ())
    return {column: value / 1000 for column, value in zip(IMAGE_COLUMNS, values, strict=False)}


def _image_name(model: Model, manipulation: Manipulation, method: str) -> str:
    return f"{PAPER_MODELS[model]}, {manipulation}, {method}"


IMAGE_PAIRS: tuple[tuple[tuple[Manipulation, str], tuple[Manipulation, str]], ...] = (
    *(((manipulation, "auto"), (manipulation, "match")) for manipulation in MANIPULATIONS),
    *(
        ((manipulation, method), ("none", method))
        for method in IMAGE_METHODS
        for manipulation in MANIPULATIONS
        if manipulation != "none"
    ),
)
"""Pairs of manipulation and method whose rows have the same rankers and images, user by user."""

TABLE_15_EPSILONS = (500.0, 100.0, 20.0, 1.0)

TABLE_15_ITEMS: tuple[Manipulation, ...] = ("none", "raifle")

TABLE_15 = _define_image_table(
    title="RAIFLE: upvotes of images under local differential privacy",
    source="Pham et al. 2024, table XV",
    columns=(*IMAGE_COLUMNS, *ALL_IMAGE_CELLS),
    pooled=ALL_IMAGE_CELLS,
    rows=tuple(
        Row(
            f"{_image_name(model, manipulation, method)}, ε = {epsilon:g}",
            {"model": model, "manipulation": manipulation, "attack": attack, "epsilon": epsilon},
            _image_auc(model, manipulation, epsilon),
            weight=2.6 if method == "auto" else 1.0,
        )
        for model in MODELS
        for epsilon in TABLE_15_EPSILONS
        for manipulation in TABLE_15_ITEMS
        for method, attack in IMAGE_METHODS.items()
    ),
    work="divulge_papers.papers.raifle.images:measure_reconstruction",
    units=IMAGE_UNITS,
    pairs=tuple(
        (f"{_image_name(model, *first)}, {noise}", f"{_image_name(model, *second)}, {noise}")
        for model in MODELS
        for noise in map(_noise_label, TABLE_15_EPSILONS)
        for first, second in IMAGE_PAIRS
        if first[0] != "fgsm"
    ),
    minutes={"small": 8, "paper": 1880},
    differs=IMAGE_AUC_DIFFERS,
)

RECOMMENDER_NAMES = ("ml-100k", "steam-200k")

RECOMMENDERS = {
    "ml-100k": (0.50, 0.52, 0.56, 0.74, 1.00),
    "steam-200k": (0.50, 0.56, 0.72, 0.90, 0.96),
}


def _recommender_settings(
    data: str, attack: Settings, epsilon: float | None = None, l1: float = 0.0
) -> Settings:
    """Settings of a cell, the same in every table that has it."""
    named = {"setting": "recommended", "data": data, "attack": attack, "epsilon": epsilon}
    return named | ({"l1": l1} if l1 else {})


TABLE_5 = _define_table(
    title="RAIFLE: interactions of users of a recommender",
    source="Pham et al. 2024, table V",
    data=("ml-100k", "steam-200k"),
    rows=tuple(
        Row(f"{data}, {method}", _recommender_settings(data, attack), {"AUC": paper})
        for data, paper in (("ml-100k", 0.998), ("steam-200k", 0.960))
        for method, attack in METHODS.items()
    ),
    pairs=tuple((f"{data}, auto", f"{data}, match") for data in RECOMMENDER_NAMES),
    minutes={"small": 2, "paper": 300},
    differs=FEWER,
    deviations=True,
)

TABLE_6_PAPER = {
    ("interaction-search", 0.0): (0.593, 0.671),
    ("match", 0.0): (0.983, 0.923),
    ("auto", 0.0): (0.983, 0.923),
    ("interaction-search", 1.0): (0.215, 0.206),
    ("match", 1.0): (0.382, 0.316),
    ("auto", 1.0): (0.382, 0.316),
}


TABLE_6 = _define_table(
    title="RAIFLE and interaction-level membership inference: decisions with and without a defence",
    source="Pham et al. 2024, table VI",
    data=("ml-100k", "steam-200k"),
    rows=tuple(
        Row(
            f"{name}, {data}, {'L1 defence' if l1 else 'no defence'}",
            _recommender_settings(data, METHODS.get(name, {"name": name}), l1=l1),
            {"F1": value},
        )
        for (name, l1), values in TABLE_6_PAPER.items()
        for data, value in zip(RECOMMENDER_NAMES, values, strict=True)
    ),
    pairs=tuple(
        (f"{first}, {data}, {defence}", f"{second}, {data}, {defence}")
        for defence in ("no defence", "L1 defence")
        for data in RECOMMENDER_NAMES
        for first, second in (("match", "interaction-search"), ("auto", "match"))
    ),
    minutes={"small": 4, "paper": 360},
    differs={
        size: f"{text} interaction-search is our reading of a description in words, of the "
        "interaction-level membership inference attack; the paper quotes its figures."
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

MQ2008 = MQ2007 | {
    (0, True): (1.00, 0.99, 0.84, 1.00, 0.99, 0.89),
    (4, True): (1.00, 0.99, 0.97, 1.00, 1.00, 0.99),
}
"""Table XIV's figures of MQ2008 where our copy of the paper can be read; MQ2007's elsewhere."""

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

MQ2008_NOTE = (
    "The figures beside MQ2008 are table XIV's of MQ2008 for noise and a ranker without or with 4 "
    "hidden units; in our copy the others cannot be read, and are MQ2007's."
)

HABITS = ("informational", "navigational")

_HONEST = "as they are"

DATA = (("mq2008", MQ2008, (4, 8, 16)), ("mslr", MSLR, (12, 24, 48)))


def _row_name(data: str, hidden: int, items: str, habit: str, queries: int, method: str) -> str:
    return f"{data}, {hidden or 'no'} hidden, {items}, {habit}, {queries} queries, {method}"


TABLE_7_CELLS = tuple(
    (data, hidden, "noise" if manipulated else _HONEST, habit, queries)
    for data, published, counts in DATA
    for hidden, manipulated in published
    for habit in HABITS
    for queries in counts
)

TABLE_7_VALUES = [
    value for _, published, _ in DATA for values in published.values() for value in values
]

TABLE_7 = _define_table(
    title="RAIFLE: clicks of users of a search engine",
    source="Pham et al. 2024, table VII",
    data=("letor-mq2008", "mslr-web10k-sample"),
    rows=tuple(
        Row(
            _row_name(*cell, method),
            {
                "data": cell[0],
                "hidden": cell[1],
                "habit": cell[3],
                "queries": cell[4],
                "manipulated": cell[2] != _HONEST,
                "attack": attack,
            },
            {"AUC": paper},
        )
        for cell, paper in zip(TABLE_7_CELLS, TABLE_7_VALUES, strict=True)
        for method, attack in METHODS.items()
    ),
    work="divulge_papers.papers.raifle.study:measure_search",
    pairs=(
        *((_row_name(*cell, "auto"), _row_name(*cell, "match")) for cell in TABLE_7_CELLS),
        *(
            (_row_name(*cell, "auto"), _row_name(*cell[:2], _HONEST, *cell[3:], "auto"))
            for cell in TABLE_7_CELLS
            if cell[2] != _HONEST
        ),
    ),
    minutes={"small": 4, "paper": 110},
    differs={size: f"{text} {MQ2008_NOTE}" for size, text in SEARCHES.items()},
)

TABLE_8 = _define_image_table(
    title="RAIFLE: upvotes of images",
    source="Pham et al. 2024, table VIII",
    columns=(*IMAGE_COLUMNS, *ALL_IMAGE_CELLS),
    pooled=ALL_IMAGE_CELLS,
    rows=tuple(
        Row(
            _image_name(model, manipulation, method),
            {"model": model, "manipulation": manipulation, "attack": attack},
            _image_auc(model, manipulation, None),
            weight=3.0 if method == "auto" else 1.0,
        )
        for model in MODELS
        for manipulation in MANIPULATIONS
        for method, attack in IMAGE_METHODS.items()
    ),
    work="divulge_papers.papers.raifle.images:measure_reconstruction",
    units=IMAGE_UNITS,
    pairs=tuple(
        (_image_name(model, *first), _image_name(model, *second))
        for model in MODELS
        for first, second in IMAGE_PAIRS
    ),
    minutes={"small": 8, "paper": 480},
    differs=IMAGE_AUC_DIFFERS,
)

TABLE_9_EPSILONS = (1.0, 20.0, 100.0, 500.0, None)

SEARCH_ENGINES = {
    ("mq2008", False): (0.50, 0.54, 0.57, 0.58, 0.66),
    ("mq2008", True): (0.48, 0.56, 0.61, 0.77, 0.84),
    ("mslr", False): (0.50, 0.50, 0.50, 0.50, 0.50),
    ("mslr", True): (0.50, 0.52, 0.58, 0.62, 0.80),
}


def _item_name(*, manipulated: bool) -> str:
    return "noise handed out" if manipulated else _HONEST


TABLE_9 = _define_table(
    title="RAIFLE against local differential privacy",
    source="Pham et al. 2024, table IX",
    data=("ml-100k", "steam-200k", "letor-mq2008", "mslr-web10k-sample"),
    rows=(
        *(
            Row(
                f"{data}, {_noise_label(epsilon)}, {method}",
                _recommender_settings(data, attack, epsilon),
                {"AUC": paper},
            )
            for data, published in RECOMMENDERS.items()
            for epsilon, paper in zip(TABLE_9_EPSILONS, published, strict=True)
            for method, attack in METHODS.items()
        ),
        *(
            Row(
                f"{data}, {_item_name(manipulated=manipulated)}, {_noise_label(epsilon)}, {method}",
                {
                    "setting": "searched",
                    "data": data,
                    "hidden": 0,
                    "habit": "informational",
                    "queries": 16 if data == "mq2008" else 48,
                    "manipulated": manipulated,
                    "attack": attack,
                    "epsilon": epsilon,
                },
                {"AUC": paper},
            )
            for (data, manipulated), published in SEARCH_ENGINES.items()
            for epsilon, paper in zip(TABLE_9_EPSILONS, published, strict=True)
            for method, attack in METHODS.items()
        ),
    ),
    pairs=(
        *(
            (f"{about}, {noise}, auto", f"{about}, {noise}, match")
            for about in (
                *RECOMMENDERS,
                *(f"{data}, {_item_name(manipulated=noisy)}" for data, noisy in SEARCH_ENGINES),
            )
            for noise in map(_noise_label, TABLE_9_EPSILONS)
        ),
        *(
            (f"{data}, noise handed out, {noise}, auto", f"{data}, {_HONEST}, {noise}, auto")
            for data in ("mq2008", "mslr")
            for noise in map(_noise_label, TABLE_9_EPSILONS)
        ),
    ),
    minutes={"small": 5, "paper": 600},
    differs={
        size: f"{text} {FEWER[size]} Figures of MQ2008 with noise handed out are table XIV's, the "
        "others of MQ2008 are MQ2007's."
        for size, text in SEARCHES.items()
    },
)

TABLE_13_PAPER = {
    "ml-100k": (0.500, 0.519, 0.562, 0.739, 0.998),
    "steam-200k": (0.502, 0.563, 0.719, 0.899, 0.960),
}

TABLE_13 = _define_table(
    title="RAIFLE: users of recommenders under local differential privacy",
    source="Pham et al. 2024, table XIII",
    data=("ml-100k", "steam-200k"),
    columns=("AUC",),
    rows=tuple(
        Row(
            f"{data}, {_noise_label(epsilon)}, {method}",
            _recommender_settings(data, attack, epsilon),
            {"AUC": paper},
        )
        for data, published in TABLE_13_PAPER.items()
        for epsilon, paper in zip(TABLE_9_EPSILONS, published, strict=True)
        for method, attack in METHODS.items()
    ),
    pairs=tuple(
        (f"{data}, {noise}, auto", f"{data}, {noise}, match")
        for data in TABLE_13_PAPER
        for noise in map(_noise_label, TABLE_9_EPSILONS)
    ),
    minutes={"small": 4, "paper": 420},
    differs={size: f"{text} Medians are not measured." for size, text in FEWER.items()},
    deviations=True,
)

TABLE_14_EPSILONS = (None, 500.0, 100.0, 20.0, 1.0)

TABLE_14_QUERIES = (4, 8, 16)

TABLE_14_COLUMNS = tuple(f"{queries} queries" for queries in TABLE_14_QUERIES)

TABLE_14_PAPER: dict[tuple[int, str], tuple[tuple[float, float, float], ...]] = {
    (0, "informational"): (
        (1.00, 0.99, 0.84), (0.95, 0.86, 0.77), (0.77, 0.71, 0.61), (0.60, 0.59, 0.56),
        (0.50, 0.51, 0.48),
    ),
    (0, "navigational"): (
        (1.00, 0.99, 0.89), (0.96, 0.90, 0.83), (0.76, 0.77, 0.69), (0.60, 0.60, 0.57),
        (0.51, 0.50, 0.49),
    ),
    (4, "informational"): (
        (1.00, 0.99, 0.97), (0.91, 0.86, 0.75), (0.73, 0.68, 0.63), (0.61, 0.57, 0.53),
        (0.50, 0.49, 0.49),
    ),
    (4, "navigational"): (
        (1.00, 1.00, 0.99), (0.93, 0.90, 0.85), (0.74, 0.73, 0.69), (0.61, 0.59, 0.59),
        (0.51, 0.50, 0.53),
    ),
}  # fmt: skip
"""MQ2008 with noise handed out: the rankers that our copy of the paper can be read for."""

TABLE_14 = _define_table(
    title="RAIFLE: clicks on MQ2008 under local differential privacy",
    source="Pham et al. 2024, table XIV",
    data=("letor-mq2008",),
    columns=TABLE_14_COLUMNS,
    rows=tuple(
        Row(
            f"{hidden or 'no'} hidden, {habit}, {_noise_label(epsilon)}, {method}",
            {
                "data": "mq2008",
                "hidden": hidden,
                "habit": habit,
                "queries": TABLE_14_QUERIES,
                "manipulated": True,
                "attack": attack,
                "epsilon": epsilon,
            },
            dict(zip(TABLE_14_COLUMNS, values, strict=True)),
        )
        for (hidden, habit), published in TABLE_14_PAPER.items()
        for epsilon, values in zip(TABLE_14_EPSILONS, published, strict=True)
        for method, attack in METHODS.items()
    ),
    work="divulge_papers.papers.raifle.study:measure_searches",
    pairs=tuple(
        (
            f"{hidden or 'no'} hidden, {habit}, {_noise_label(epsilon)}, auto",
            f"{hidden or 'no'} hidden, {habit}, {_noise_label(epsilon)}, match",
        )
        for hidden, habit in TABLE_14_PAPER
        for epsilon in TABLE_14_EPSILONS
    ),
    minutes={"small": 4, "paper": 60},
    differs={
        size: f"MQ2008 as in the paper, with noise handed out and rankers of no and of 4 hidden "
        f"units: the part of the table that our copy can be read for. {text}"
        for size, text in SEARCHES.items()
    },
    deviations=True,
)
