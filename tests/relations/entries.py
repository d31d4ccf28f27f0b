"""Every way to have one model audited: in Python, by settings, and by tables of what it answers."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import divulge
from divulge.core import MembershipAttack
from divulge.testing.relations import subjects
from divulge.testing.relations.subjects import Subject
from tests.kinds import audit_model
from tests.targets import tiny_models as tiny

RANDOM = divulge.Options(membership="fixed")
"""Members were drawn at random, so that a table can show a leak."""

Columns = dict[str, list[object]]
FUNCTION = """
from pathlib import Path
import numpy as np
from scipy.special import softmax
held = np.load(Path(__file__).with_name("weights.npz"))
def model(x):
    return softmax(np.asarray(x, np.float64) @ held["weight"] + held["bias"], axis=1)
"""
Entry = Callable[[Subject, Path], divulge.Audit]


def attacks() -> list[MembershipAttack]:
    """Those that every way allows."""
    return [divulge.attack("threshold"), divulge.attack("gap")]


def audit(
    model: object, subject: Subject, output: str | None = None, options: divulge.Options = RANDOM
) -> divulge.Audit:
    """By the Python function."""
    return divulge.audit(
        model,
        members=subject.records(inside=True),
        nonmembers=subject.records(inside=False),
        attacks=attacks(),
        access=divulge.Access(output, batch_size=subject.batch_size),  # type: ignore[arg-type]
        options=options,
    )


def by_function(subject: Subject, folder: Path) -> divulge.Audit:
    del folder
    named = divulge.Options(membership="fixed", class_names=subject.names)
    return audit(subject.answer, subject, options=named)


def by_estimator(subject: Subject, folder: Path) -> divulge.Audit:
    del folder
    return audit(tiny.estimator(subject.weight, subject.bias), subject)


def by_module(subject: Subject, folder: Path) -> divulge.Audit:
    del folder
    pytest.importorskip("torch")
    return audit(tiny.module(subject.weight, subject.bias), subject, "logits")


def by_onnx(subject: Subject, folder: Path) -> divulge.Audit:
    pytest.importorskip("onnxruntime")
    model = tiny.save_onnx(folder / "model.onnx", weight=subject.weight, bias=subject.bias)
    return audit(model, subject)


def by_saved(subject: Subject, folder: Path) -> divulge.Audit:
    """A model file, which a process of its own reads."""
    pytest.importorskip("skops")
    estimator = tiny.estimator(subject.weight, subject.bias)
    return audit(tiny.save_skops(folder / "model.skops", estimator), subject)


def by_settings(subject: Subject, folder: Path) -> divulge.Audit:
    """A function and tables of records, named in a file of settings."""
    np.savez(folder / "weights.npz", weight=subject.weight, bias=subject.bias)
    (folder / "subject.py").write_text(FUNCTION)
    return _by_file(subject, folder, 'model = "subject.py:model"')


def _by_file(subject: Subject, folder: Path, target: str, more: str = "") -> divulge.Audit:
    """A model that these lines of a file of settings name, and tables of records."""
    for name, inside in (("members", True), ("nonmembers", False)):
        x, y = subject.records(inside=inside)
        columns: Columns = {f"f{k}": column.tolist() for k, column in enumerate(x.T)}
        write_csv(columns | {"label": y.tolist()}, folder / f"{name}.csv")
    (folder / "audit.toml").write_text(
        f"[target]\n{target}\nbatch_size = {subject.batch_size}\n{more}"
        '[data]\nmembers = "members.csv"\nnonmembers = "nonmembers.csv"\nmembership = "fixed"\n'
        '[[attacks]]\nname = "threshold"\n[[attacks]]\nname = "gap"\n'
    )
    return audit_model(folder / "audit.toml")


def by_endpoint(subject: Subject, folder: Path) -> divulge.Audit:
    """A model behind a URL in a file of settings, which answers in the order of its classes."""
    pytest.importorskip("httpx")
    from tests.endpoints import serve

    with serve(subject.answer) as server:
        asked = f'url = "{server.url}/predict"\nfingerprint = "1"'
        return _by_file(
            subject, folder, asked, f"http = {{records_per_request = {subject.batch_size}}}\n"
        )


def by_names(subject: Subject, folder: Path) -> divulge.Audit:
    """One that gets the names of features, and answers by the names of classes."""
    del folder
    pytest.importorskip("httpx")
    pandas = pytest.importorskip("pandas")
    from tests.endpoints import LABELS, serve

    order = [subject.names.index(name) for name in subjects.NAMES]
    with serve(lambda x: subject.answer(x)[:, order]) as server:
        target = divulge.targets.HTTPTarget(
            f"{server.url}/mine",
            "1",
            records="rows",
            answers="results.*.scores",
            labels=tuple(LABELS[subjects.NAMES.index(name)] for name in subject.names),
            records_per_request=subject.batch_size,
        )
        frame = [f"f{k}" for k in range(subject.x.shape[1])]
        return audit(target, replace(subject, x=pandas.DataFrame(subject.x, columns=frame)))


def table(subject: Subject) -> Columns:
    """Columns of a table of what the model answers, labels as names."""
    answers = subject.probabilities
    found: Columns = {f"p_{name}": answers[:, k].tolist() for k, name in enumerate(subject.names)}
    found["label"] = [subject.names[k] for k in subject.y]
    found["member"] = subject.member.astype(int).tolist()
    return found


def write_csv(columns: Columns, path: Path) -> Path:
    """The table as a text; numbers are read again as they were."""
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in [tuple(columns), *rows]))
    return path


def write_parquet(columns: Columns, path: Path, rows: int) -> Path:
    """The table as Parquet, in groups of so many rows."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path, rows)
    return path


def by_table(subject: Subject, folder: Path) -> divulge.Audit:
    path = write_csv(table(subject), folder / "table.csv")
    return divulge.audit_predictions(path, options=RANDOM, attacks=attacks())


def by_parquet(subject: Subject, folder: Path) -> divulge.Audit:
    path = write_parquet(table(subject), folder / "table.parquet", subject.batch_size)
    return divulge.audit_predictions(path, options=RANDOM, attacks=attacks())


def by_settings_of_a_table(subject: Subject, folder: Path) -> divulge.Audit:
    write_csv(table(subject), folder / "table.csv")
    (folder / "table.toml").write_text(
        '[predictions]\nfile = "table.csv"\nmembership = "fixed"\n'
        '[[attacks]]\nname = "threshold"\n[[attacks]]\nname = "gap"\n'
    )
    return audit_model(folder / "table.toml")


def by_scores(subject: Subject, folder: Path, *, loss: bool = False) -> divulge.Audit:
    """The loss of each record, or the score that is its negative, as somebody computed it."""
    held = -np.log(subject.probabilities[np.arange(len(subject.y)), subject.y])
    columns: Columns = {
        "of_a_record": (held if loss else -held).tolist(),
        "member": subject.member.astype(int).tolist(),
    }
    path = write_csv(columns, folder / "scores.csv")
    if loss:
        return divulge.audit_predictions(path, loss="of_a_record", options=RANDOM)
    return divulge.audit_predictions(path, score="of_a_record", options=RANDOM)


MODELS: dict[str, Entry] = {
    "function": by_function,
    "scikit-learn": by_estimator,
    "torch": by_module,
    "ONNX": by_onnx,
    "settings": by_settings,
    "HTTP": by_endpoint,
    "HTTP by names": by_names,
}
TABLES: dict[str, Entry] = {
    "CSV": by_table,
    "Parquet": by_parquet,
    "settings of a table": by_settings_of_a_table,
}
SCORES: dict[str, Entry] = {
    "scores": by_scores,
    "losses": partial(by_scores, loss=True),
}
ENTRIES = MODELS | TABLES | SCORES
ALL = ENTRIES | {"saved": by_saved}
"""With one that takes seconds to begin."""
