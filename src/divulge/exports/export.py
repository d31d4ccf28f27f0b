"""A finished run as the files that other tools read."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from divulge._util import atomic, untrusted
from divulge._util.arguments import FilePath, check_arguments
from divulge.errors import SpecError, StoreError
from divulge.exports.archive import check_archive, write_archive
from divulge.exports.ci import job_summary as job_summaries
from divulge.exports.ci import junit as junit_files
from divulge.exports.ci import sarif as sarif_files
from divulge.exports.ci.cases import RunCases
from divulge.exports.ci.gather import gather_cases
from divulge.exports.outputs import Output, check_places, write_outputs
from divulge.exports.trackers import mlflow_runs, wandb_runs
from divulge.exports.trackers.model_index import put_figures
from divulge.exports.trackers.tracked import (
    TrackedFigure,
    gather_figures,
    name_figures,
    name_tags,
    read_report,
)
from divulge.finished_runs.finished_run import FinishedRun, load
from divulge.finished_runs.gate import (
    CanaryFailOn,
    Ceilings,
    FailOn,
    Gate,
    GateSpec,
    Judge,
    join_gate,
)
from divulge.finished_runs.judged import Ruling
from divulge.finished_runs.run_json import HEAD
from divulge.report import model_card as model_cards

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable in which GitHub names the file of a step's summary."""


@check_arguments
def export(
    run: FilePath,
    *,
    junit: FilePath | None = None,
    sarif: FilePath | None = None,
    job_summary: FilePath | Literal[True] | None = None,
    model_card: FilePath | None = None,
    model_index: str | None = None,
    archive: FilePath | None = None,
    mlflow: str | Literal[True] | None = None,
    wandb: FilePath | None = None,
    settings: FilePath = "audit.toml",
    fail_on: Iterable[FailOn | CanaryFailOn] = (),
    fail_above: Ceilings | None = None,
    judge: Judge | None = None,
    not_worse_than: FilePath | None = None,
    ceiling: Ceilings | None = None,
) -> Ruling:
    """Write what other tools read of a finished run, and hold it against a gate.

    Nothing is computed again: the files depend on the run folder and the gate alone. Conditions,
    places, packages and trackers are checked before the first output is written.

    Args:
        run: a run folder of any kind.
        junit: a JUnit XML file to write, with a test case for each thing that the gate asks for
            and one for each attack.
        sarif: a SARIF 2.1.0 file to write, with a result for each thing that is wrong.
        job_summary: a Markdown file to write; True appends to the one that GitHub names in
            ``GITHUB_STEP_SUMMARY``.
        model_card: a model card, such as the README.md of a model on Hugging Face, that gets a
            section about the run; a section of an earlier run is replaced.
        model_index: the name of the model in the card's metadata, which then get the leading metric
            of each attack as ``model-index``; needs ``model_card``.
        archive: a zip file to write, with all files of the run folder.
        mlflow: where MLflow tracks, such as ``sqlite:///mlflow.db``, to write a run with metrics,
            verdict and report; True takes what MLflow is set up with.
        wandb: a folder in which to write the same as an offline run of Weights & Biases.
        settings: path of the settings file in its repository, where SARIF places its results and
            from where a relative ``not_worse_than`` in ``[gate]`` starts.
        fail_on: as for `Audit.gate`, besides what ``[gate]`` of the run's settings asks for.
        fail_above: as for `Audit.gate`, besides.
        judge: as for `Audit.gate`.
        not_worse_than: as for `Audit.gate`.
        ceiling: as for `Audit.gate`, besides.

    Returns:
        What the gate says; without a gate it passes.

    Raises:
        SpecError: neither a file nor a condition is given, the gate makes no sense for this run,
            GitHub named no file, or two outputs have one place.
        MissingExtra: a package is not installed.
        StoreError: the run is damaged or not finished, or an output cannot be written; where that
            shows only while it is written, says which were written and which not.
    """
    conditions = tuple(fail_on), fail_above, not_worse_than, ceiling
    outputs = (junit, sarif, job_summary, model_card, archive, mlflow, wandb)
    if all(output is None for output in outputs) and not any(conditions):
        raise SpecError(
            "expected a file to write or a condition, got neither: give --junit, --sarif, "
            "--job-summary, --model-card, --archive, --mlflow, --wandb or --fail-on"
        )
    if model_index is not None and model_card is None:
        raise SpecError("expected a model card beside --model-index, got none: add --model-card")
    place = _place_in_repository(settings)
    summary_file = _name_summary_file(job_summary)
    path = Path(run)
    finished = load(path)
    folder = Path(place).parent
    gate = read_gate(finished, conditions[0], fail_above, judge, not_worse_than, folder, ceiling)
    cases = gather_cases(finished, path, gate)
    figures = gather_figures(finished)
    card = _add_section(cases, model_card)
    if model_index is not None:
        card = _add_figures(card, model_index, cases.name, finished, figures)
    ruling = finished.judged().rule(gate) if "" in finished.parts else Ruling()
    contents = {
        "--junit": (junit, junit_files.render(cases)),
        "--sarif": (sarif, sarif_files.render(cases, place)),
        "--job-summary": (
            summary_file,
            _add_summary(cases, summary_file, keep=job_summary is True),
        ),
        "--model-card": (model_card, card),
    }
    write_outputs(
        [
            *_prepare_files(contents, path, archive),
            *_prepare_trackers(cases, finished, path, figures, mlflow, wandb),
        ]
    )
    return ruling


def _prepare_files(
    contents: Mapping[str, tuple[FilePath | None, bytes]], run: Path, archive: FilePath | None
) -> list[Output]:
    """Files to write at places that can take them.

    Args:
        contents: by option, its place, if one is asked for, and what to write.
        run: the run folder.
        archive: the place of the archive, if one is asked for.

    Raises:
        SpecError: two files have one place.
        StoreError: a place can take no file, or the run folder cannot be packed.
    """
    files = {
        option: (Path(path), text) for option, (path, text) in contents.items() if path is not None
    }
    places = {option: path for option, (path, _) in files.items()}
    outputs = [
        Output(str(path), partial(atomic.write, path, text)) for path, text in files.values()
    ]
    if archive is not None:
        places["--archive"] = Path(archive)
        check_archive(run, Path(archive))
        outputs.append(Output(str(archive), partial(write_archive, run, Path(archive))))
    check_places(places)
    return outputs


def _prepare_trackers(
    cases: RunCases,
    finished: FinishedRun,
    path: Path,
    figures: tuple[TrackedFigure, ...],
    mlflow: str | Literal[True] | None,
    wandb: FilePath | None,
) -> list[Output]:
    """Runs to write for trackers that can be reached; MLflow's last, which no retry replaces.

    Raises:
        MissingExtra: the package of a tracker is not installed.
        StoreError: there is no report, or a tracker cannot be reached.
    """
    if mlflow is None and wandb is None:
        return []
    content = (
        cases.name,
        name_figures(figures),
        name_tags(cases.verdicts, cases.divulge),
        read_report(path, finished.page),
    )
    outputs = []
    if wandb is not None:
        wandb_runs.check_folder(Path(wandb))
        outputs.append(
            Output("a run of Weights & Biases", partial(wandb_runs.track, *content, Path(wandb)))
        )
    if mlflow is not None:
        uri = None if mlflow is True else mlflow
        mlflow_runs.check_store(uri)
        outputs.append(Output("a run of MLflow", partial(mlflow_runs.track, *content, uri)))
    return outputs


def read_gate(
    finished: FinishedRun,
    fail_on: Iterable[FailOn | CanaryFailOn] = (),
    fail_above: Ceilings | None = None,
    judge: Judge | None = None,
    not_worse_than: str | Path | None = None,
    folder: Path = Path(),
    ceiling: Ceilings | None = None,
) -> Gate:
    """The gate in a run's settings, with what is asked besides; see `join_gate`.

    Raises:
        SpecError: a run without a verdict of its own is held against a gate; says what it is.
        StoreError: the run's settings are damaged.
    """
    asks = fail_on or fail_above or not_worse_than or ceiling
    if "" not in finished.parts and not asks:
        return Gate()
    about, head = finished.judged().about, finished.head
    raw = atomic.to_json(head.settings.get("gate", {}), dict)
    spec = atomic.from_json(raw.encode(), GateSpec, (finished.path or Path()) / HEAD)
    return join_gate(spec, about, fail_on, fail_above, judge, not_worse_than, folder, ceiling)


def _place_in_repository(settings: str | Path) -> str:
    """The path of the settings as SARIF gives it.

    Raises:
        SpecError: it does not start at the root of the repository.
    """
    place = PurePosixPath(Path(settings).as_posix())
    if Path(settings).is_absolute() or ".." in place.parts or not place.name:
        raise SpecError(
            "expected the path of the settings from the root of their repository, got "
            f"{str(settings)!r}: give it as the repository does, such as privacy/audit.toml"
        )
    return str(place)


def _name_summary_file(requested: str | Path | Literal[True] | None) -> str | Path | None:
    if requested is not True:
        return requested
    if named := os.environ.get(STEP_SUMMARY):
        return named
    raise SpecError(
        f"expected the name of a file in {STEP_SUMMARY}, which GitHub sets in a step of a "
        "workflow, got none: name the file after --job-summary"
    )


def _add_summary(cases: RunCases, path: str | Path | None, *, keep: bool) -> bytes:
    before = _read_before(path) if keep else b""
    return before + job_summaries.render(cases).encode()


def _add_section(cases: RunCases, path: str | Path | None) -> bytes:
    """The model card with a section about the run.

    Raises:
        StoreError: the card is no text, or its earlier section is damaged.
    """
    try:
        text = _read_before(path).decode()
        parts = cases.markdown, cases.created, cases.divulge, cases.environment
        return model_cards.put_section(text, *parts).encode()
    except ValueError as error:
        raise StoreError(
            f"expected a model card in UTF-8 with at most one whole section of divulge in {path}, "
            f"got something else ({error}): mend it, or name another file"
        ) from error


def _add_figures(
    card: bytes, model: str, run: str, finished: FinishedRun, figures: tuple[TrackedFigure, ...]
) -> bytes:
    """The model card with figures in its metadata.

    Raises:
        StoreError: its metadata are damaged.
    """
    try:
        return put_figures(card.decode(), model, run, finished.about, figures).encode()
    except ValueError as error:
        raise StoreError(
            "expected a model card with metadata as Hugging Face takes them, got something else "
            f"({str(error).splitlines()[0]}): mend what stands between the lines of ---"
        ) from error


def _read_before(path: str | Path | None) -> bytes:
    """What a file holds to which something is added; nothing if there is none."""
    if path is None or not Path(path).exists():
        return b""
    return untrusted.read_file(Path(path), untrusted.MAX_TEXT_BYTES, StoreError)
