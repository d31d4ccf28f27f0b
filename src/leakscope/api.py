"""What Python users call, and what each command calls: audit, load, and the result."""

import datetime as dt
import html
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leakscope import auditing, build, catalog, controls, demo, spec
from leakscope.core import Check, Finding, Membership, MembershipAttack, Need, Scores
from leakscope.data import checks
from leakscope.errors import MissingExtra, SpecError
from leakscope.report import files as report_files
from leakscope.report import summary as summaries
from leakscope.store import Candidates, Contents, Entry, Manifest, Run
from leakscope.targets import wrap
from leakscope.targets.answers import Output
from leakscope.training.trainers import as_trainer, trainer_name

if TYPE_CHECKING:
    import pandas as pd

PAGE = "report.html"


@dataclass(frozen=True)
class Audit:
    """What an audit found. Shows itself in a notebook."""

    contents: Contents
    path: Path | None = None
    """The run folder, if it has one."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding per attack, in the order asked for."""
        return tuple(entry.finding for entry in self.contents.entries)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the audit itself."""
        return self.contents.manifest.checks

    @property
    def summary(self) -> summaries.Summary:
        """All that the report shows."""
        return summaries.summarise(self.contents)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, one self-contained HTML file, and return its path.

        Args:
            path: default: the whole report in the run folder, if there is one, again; else
                ``report.html``.

        Raises:
            StoreError: it cannot be written.
        """
        files = report_files.write_all(self.contents)
        if path is None and self.path is not None:
            _write_report(Run.open(self.path), files)
            return self.path / PAGE
        path = Path(path or PAGE)
        return Run(path.parent).write(path.name, files[PAGE])

    def measure(self) -> "Audit":
        """Compute all metrics again from the stored scores; a run folder is brought up to date.

        Raises:
            StoreError: the run folder cannot be written.
        """
        contents = self.contents
        truth = Membership(contents.candidates.member)
        delta = contents.manifest.delta
        entries = tuple(_measured(entry, truth, delta) for entry in contents.entries)
        again = replace(self, contents=replace(contents, entries=entries))
        if self.path is not None:
            run = Run.open(self.path)
            keys = {entry.finding.label: key for key, entry in run.entries().items()}
            for entry in entries:
                run.put(keys[entry.finding.label], entry)
            again.report()
        return again

    def save(self, path: str | Path) -> Path:
        """Write a run folder with findings, scores and report, and return its path.

        Raises:
            StoreError: the folder exists, or cannot be written.
        """
        run = Run.create(Path(path))
        run.begin(self.contents.manifest, self.contents.candidates)
        for number, entry in enumerate(self.contents.entries):
            run.put(f"{entry.finding.attack}-{number:03d}", entry)
        _write_report(run, report_files.write_all(self.contents))
        return run.path

    def to_frame(self) -> "pd.DataFrame":
        """One row per attack and metric: attack, status, metric, value, low, high.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "pandas") from error
        rows: list[tuple[str, str, str | None, float | None, float | None, float | None]] = []
        for finding in self.findings:
            start = (finding.label, finding.status.value)
            rows += [
                (*start, name, estimate.value, estimate.low, estimate.high)
                for name, estimate in finding.metrics.items()
            ] or [(*start, None, None, None, None)]
        return pd.DataFrame(rows, columns=["attack", "status", "metric", "value", "low", "high"])

    def _repr_html_(self) -> str:
        # a frame of its own: the page's styles cannot reach the notebook, nor the notebook's it
        page = html.escape(report_files.write_all(self.contents)[PAGE].decode(), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="" title="leakscope report" '
            'style="width:100%;height:48em;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        verdict = self.summary.verdict
        return "\n".join([f"<leakscope.Audit: {verdict.headline}>", *verdict.sentences])


def audit(
    model: Any,
    *,
    members: Any,
    nonmembers: Any,
    reference: Any = None,
    attacks: Iterable[MembershipAttack] | None = None,
    output: Output | None = None,
    shadows: int = 0,
    train: Any = None,
    class_names: Iterable[str] = (),
    seed: int = 0,
    delta: float = 0.0,
    budget: int | None = None,
    fingerprint: str | None = None,
    name: str = "audit",
    run: str | Path | None = None,
    resume: bool = False,
) -> Audit:
    """Audit a trained classifier for membership leakage.

    Args:
        model: a callable from features to probabilities, a fitted scikit-learn estimator, a
            ``torch.nn.Module``, the path of a saved model, or a ``leakscope.Target``.
        members: records the model was trained on: a pair (x, y) or ``leakscope.Records``.
        nonmembers: records it never saw, drawn from the same population.
        reference: further records it never saw, which the attacker owns. Without them the
            attacks that calibrate on known non-members do not apply.
        attacks: default: every attack that leakscope has.
        output: what the model answers: ``"probabilities"``, ``"logits"`` or ``"labels"``.
            Needed for a torch module; never guessed.
        shadows: how many models like the target to train, each on a random half of the
            candidates, for the attacks that compare the target with them; 16 is a good start.
        train: how to train one: a scikit-learn estimator, or a function (x, y, seed) that
            returns a trained model. By default, for a scikit-learn model, its own settings.
        class_names: one per class, for the report.
        seed: fixes every random choice.
        delta: δ of the guarantee that the epsilon bound is to be compared with.
        budget: highest number of answers to ask of the model.
        fingerprint: identifies the model, such as its version. With it (torch modules,
            scikit-learn estimators and files have one of their own) the run folder keeps the
            model's answers, and a resumed run does not ask, or pay, for them again.
        name: the title of the report.
        run: write the run folder as the work goes on, so that it survives a crash.
        resume: continue that run folder instead of refusing to touch it.

    Returns:
        The findings; ``.report()`` writes the page, ``.save()`` the run folder.

    Raises:
        LeakscopeError: the model, the data or a setting cannot be used; says what to do.

    Examples:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x, y = np.random.default_rng(0).normal(size=(400, 5)), np.arange(400) % 2
        >>> tree = DecisionTreeClassifier(random_state=0).fit(x[:200], y[:200])
        >>> found = audit(tree, members=(x[:200], y[:200]), nonmembers=(x[200:], y[200:]))
        >>> found.findings[0].metrics["auc"].low > 0.7
        True
    """
    plan = _plan(model, output, shadows, train)
    subject = build.Subject(
        target=wrap.wrap(model, output),
        members=build.as_records(members, "members"),
        nonmembers=build.as_records(nonmembers, "nonmembers"),
        reference=None if reference is None else build.as_records(reference, "reference"),
        class_names=tuple(class_names),
        fingerprint=wrap.fingerprint(model) if fingerprint is None else fingerprint,
        budget=budget,
        shadows=plan,
    )
    return perform(
        subject,
        attacks=tuple(catalog.default(shadows=shadows > 0) if attacks is None else attacks),
        settings={"output": output, "shadows": shadows},
        seed=seed,
        delta=delta,
        name=name,
        run=None if run is None else _folder(Path(run), resume=resume),
    )


def audit_predictions(
    path: str | Path,
    *,
    probabilities: str = "p_*",
    label: str = "label",
    member: str = "member",
    output: Literal["probabilities", "logits"] = "probabilities",
    attacks: Iterable[MembershipAttack] | None = None,
    class_names: Iterable[str] = (),
    seed: int = 0,
    delta: float = 0.0,
    name: str = "audit",
    run: str | Path | None = None,
    resume: bool = False,
) -> Audit:
    """Audit a table of a model's answers; neither the model nor the records are needed.

    Attacks that read features do not apply, nor do the checks that compare them.

    Args:
        path: ``.csv`` or ``.parquet``, one row a record.
        probabilities: pattern of the columns that hold the answers, in the order of classes.
        label: the column with the true class, 0 to classes - 1.
        member: the column that says whether the model was trained on the record.
        output: what the answers are.
        attacks: see `audit`, as for the others.
        class_names: one per class.
        seed: fixes every random choice.
        delta: δ of the guarantee that the epsilon bound is to be compared with.
        name: the title of the report.
        run: write the run folder as the work goes on.
        resume: continue that run folder.

    Raises:
        LeakscopeError: the table or a setting cannot be used; says what to do.
    """
    settings = spec.PredictionsSpec(
        file=str(Path(path).resolve()),
        probabilities=probabilities,
        label=label,
        member=member,
        output=output,
        class_names=tuple(class_names),
    )
    return perform(
        build.predictions(settings, Path()),
        attacks=tuple(catalog.default() if attacks is None else attacks),
        settings={"predictions": settings.model_dump(mode="json") | {"file": Path(path).name}},
        seed=seed,
        delta=delta,
        name=name,
        run=None if run is None else _folder(Path(run), resume=resume),
    )


def audit_file(
    path: str | Path,
    run: str | Path | None = None,
    *,
    resume: bool = False,
    track: build.Track[Any] = build.untracked,
) -> Audit:
    """Audit what an ``audit.toml`` describes.

    Args:
        path: the settings; relative paths in them start at its folder.
        run: the run folder; by default the next free ``runs/NAME-001`` beside the settings, or
            the latest one with ``resume``.
        resume: continue the run folder.
        track: shows progress.

    Raises:
        LeakscopeError: see `audit`.
    """
    path = Path(path)
    settings = spec.read(path)
    attacks = spec.attacks(settings)
    _check_distinct(attacks)
    subject = build.load(settings, path.parent)
    default = numbered(path.parent / "runs" / settings.name.replace(" ", "-"), latest=resume)
    return perform(
        subject,
        attacks=attacks,
        settings=settings.model_dump(mode="json", exclude_defaults=True),
        seed=settings.seed,
        delta=settings.metrics.delta,
        name=settings.name,
        run=_folder(default if run is None else Path(run), resume=resume),
        track=track,
    )


def run_demo(run: str | Path | None = None, track: build.Track[Any] = build.untracked) -> Audit:
    """Train a small over-fitted network on scikit-learn's digits, and audit it.

    Args:
        run: the run folder; by default the next free ``runs/demo-001``.
        track: shows progress.
    """
    folder = numbered(Path("runs") / "demo") if run is None else Path(run)
    created = Run.create(folder)
    subject = next(iter(track([demo.subject], "Training a network on digits")))()
    return perform(
        subject,
        attacks=catalog.default(),
        settings={"demo": demo.DESCRIPTION},
        seed=0,
        delta=0.0,
        name="digits demonstration",
        run=created,
        track=track,
    )


def load(run: str | Path) -> Audit:
    """The audit in a run folder; needs neither the model nor the data.

    Raises:
        StoreError: it is no run folder, damaged, or made by a newer leakscope.
    """
    path = Path(run)
    return Audit(Run.open(path).contents(), path)


def perform(
    subject: build.Subject,
    *,
    attacks: tuple[MembershipAttack, ...],
    settings: dict[str, Any],
    seed: int,
    delta: float,
    name: str,
    run: Run | None,
    track: build.Track[Any] = build.untracked,
) -> Audit:
    """The path every audit takes: prepare, check, attack, store, report.

    With a run folder, each finding is stored as soon as it is there, and what is stored already
    is not computed again.
    """
    _check_distinct(attacks)
    # without a fingerprint nothing could tell these answers from those of a changed model
    answers_path = run.path / "answers.sqlite" if run and subject.fingerprint else None
    prepared = build.prepare(subject, seed, delta, answers_path, track)
    manifest = _manifest(subject, prepared, attacks, settings, seed, delta, name)
    candidates = Candidates(
        prepared.challenge.truth.member, prepared.challenge.view.records.y, prepared.index
    )
    if run:
        run.begin(manifest, candidates)
    if subject.shadows is not None:
        prepared = build.train_shadows(prepared, subject.shadows, seed, run, track)
    entries = []
    for attack in track(attacks, "Attacking"):
        key = build.finding_key(prepared.digest, attack)
        entry = run.get(key) if run else None
        if entry is None:
            entry = _attack(prepared, attack, seed, delta)
            if run:
                run.put(key, entry)
        entries.append(entry)
    if run is None:
        return Audit(Contents(manifest, candidates, tuple(entries)))
    found = load(run.path)
    found.report()
    return found


def numbered(base: Path, *, latest: bool = False) -> Path:
    """``base-001``, or the next number that is free; with ``latest`` the last one that is not."""
    number = 1
    while Path(f"{base}-{number:03d}").exists():
        number += 1
    return Path(f"{base}-{max(1, number - latest):03d}")


def _attack(prepared: build.Prepared, attack: MembershipAttack, seed: int, delta: float) -> Entry:
    finding, guess = auditing.run(prepared.challenge, attack, seed, delta)
    if guess is None:
        return Entry(finding)
    return Entry(finding, controls.check(prepared.challenge, attack, guess, seed), guess.score)


def _measured(entry: Entry, truth: Membership, delta: float) -> Entry:
    if entry.score is None:
        return entry
    metrics, unmeasured = auditing.measure(Scores(entry.score), truth, delta)
    return replace(entry, finding=replace(entry.finding, metrics=metrics, unmeasured=unmeasured))


def _plan(model: Any, output: Output | None, shadows: int, train: Any) -> build.ShadowPlan | None:
    if shadows == 0:
        return None
    if train is None and not hasattr(model, "get_params"):
        raise SpecError(
            "expected to be told how a shadow model is trained, got no train: pass a scikit-learn "
            "estimator, or a function (x, y, seed) that returns a trained model"
        )
    how = model if train is None else train
    return build.ShadowPlan(as_trainer(how, output), shadows, fingerprint=trainer_name(how))


def _folder(path: Path, *, resume: bool) -> Run:
    return Run.open(path) if resume and (path / "findings").is_dir() else Run.create(path)


def _check_distinct(attacks: Iterable[MembershipAttack]) -> None:
    seen: set[str] = set()
    for attack in attacks:
        label = auditing.label(attack)
        if label in seen:
            raise SpecError(f"expected different attacks, got {label} twice: drop one")
        seen.add(label)


def _manifest(
    subject: build.Subject,
    prepared: build.Prepared,
    attacks: Iterable[MembershipAttack],
    settings: dict[str, Any],
    seed: int,
    delta: float,
    name: str,
) -> Manifest:
    view, truth = prepared.challenge.view, prepared.challenge.truth
    question = checks.Subject(
        view.records,
        truth.member,
        view.reference,
        prepared.answers,
        features=Need.FEATURES in view.offers,
    )
    return Manifest(
        name=name,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        challenge=prepared.digest,
        seed=seed,
        delta=delta,
        members=len(subject.members),
        nonmembers=len(subject.nonmembers),
        reference=0 if subject.reference is None else len(subject.reference),
        classes=prepared.answers.shape[1],
        class_names=prepared.class_names,
        attacks=tuple(auditing.label(attack) for attack in attacks),
        settings=settings,
        environment=_environment(),
        checks=checks.check(question, seed),
        leakscope=version("leakscope"),
    )


def _environment() -> dict[str, str]:
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **packages,
    }


def _write_report(run: Run, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        run.write(name, content)
