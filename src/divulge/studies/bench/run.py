"""Audit each target with an attack of somebody's own and with those of divulge."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from divulge._util import atomic
from divulge._util.arguments import FilePath, Seed, check_arguments
from divulge._util.folders import numbered_folder, take_folder
from divulge._util.json import JSON
from divulge._util.progress import Progress, Track, as_track, with_title
from divulge.attacks import own
from divulge.audits.api import audit
from divulge.audits.options import Options, ShadowModels
from divulge.audits.result import Audit
from divulge.core import MembershipAttack
from divulge.errors import SpecError
from divulge.secrets.wrapped import attack_label
from divulge.studies.bench.result import AttackBench
from divulge.studies.bench.targets import TARGETS, train_target
from divulge.studies.compare.config import default_attacks

SHADOWS = 16
"""Shadow models of each target, trained as it was."""
CSV, LATEX, PLOT = "bench.csv", "bench.tex", "bench.svg"


@check_arguments
def bench_attack(
    attack: Any,
    *,
    settings: Mapping[str, JSON] | None = None,
    run: FilePath | None = None,
    seed: Seed = 0,
    progress: Progress = False,
) -> AttackBench:
    """Put an attack of your own beside threshold, gap, calibrated, lira and rmia.

    Six small models are trained on data of scikit-learn (`bench.targets.TARGETS`), each with 16
    shadow models, and audited with all controls. A run folder that was begun is continued.

    Args:
        attack: an attack on membership, or its name: ``mine.py:Surest``.
        settings: of an attack that is given by its name.
        run: the folder, with an audit for each target and the table as ``bench.csv``,
            ``bench.tex`` and ``bench.svg``; a new one in ``runs/`` unless given.
        seed: of records, models and attacks.
        progress: True shows how far the work is; see `divulge.Options`.

    Raises:
        SpecError: it is no attack on membership, or one of those that it is put beside.
        StoreError: the folder cannot be written, or holds a bench of another attack or seed.
    """
    mine = _build(attack, dict(settings or {}))
    label = attack_label(mine)
    others = [builtin for builtin in default_attacks() if attack_label(builtin) != label]
    place = numbered_folder(Path("runs") / "bench") if run is None else Path(run)
    track = as_track(progress)
    with take_folder(place):
        audits = {
            name: _audit_target(name, [mine, *others], place / name, seed, with_title(track, name))
            for name in TARGETS
        }
        bench = AttackBench(label, audits, place)
        _write(bench)
    return bench


def _build(attack: Any, settings: dict[str, JSON]) -> MembershipAttack:
    if not isinstance(attack, str):
        if settings:
            raise SpecError(
                "expected settings beside the name of an attack, got them beside an attack: give "
                "them where it is made"
            )
        own.check_attack_object(attack)
        built: MembershipAttack = attack
        return built
    named: MembershipAttack = own.builder("membership", Path())(attack, **settings)
    return named


def _audit_target(
    name: str, attacks: list[MembershipAttack], folder: Path, seed: int, track: Track[Any]
) -> Audit:
    with track.step("Training the target"):
        trained = train_target(name, seed)
    options = Options(
        name=f"bench {name}",
        seed=seed,
        membership="coins",
        progress=track,
        resume=True,
    )
    return audit(
        trained.model,
        members=trained.members,
        nonmembers=trained.nonmembers,
        reference=trained.reference,
        attacks=attacks,
        shadows=ShadowModels(SHADOWS),
        run=folder,
        options=options,
    )


def _write(bench: AttackBench) -> None:
    from divulge.studies.bench.chart import draw_bench  # loads the chart library

    atomic.write(bench.path / CSV, bench.as_csv().encode())
    atomic.write(bench.path / LATEX, bench.as_latex().encode())
    atomic.write(bench.path / PLOT, draw_bench(bench))
