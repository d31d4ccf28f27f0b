"""The final model of a search: trained, audited, and described in a model card."""

from pathlib import Path
from typing import Any

from divulge._util import atomic
from divulge._util.progress import Track
from divulge._util.showable import make_all_showable, make_showable
from divulge.audits.runner import RunHeading
from divulge.core import Head
from divulge.report import markdown
from divulge.report.markdown import make_inert
from divulge.report.model_card import put_section
from divulge.studies.compare.export import CARD, neighbour
from divulge.studies.harden.final import HardenDesign, audit_final, train_final
from divulge.studies.harden.result import MODEL, HardenedModel, HardeningFacts
from divulge.studies.harden.space import make_variant
from divulge.studies.harden.trials import ModelLog, find_chosen
from divulge.training.shadows.workers import Workers


def finish(
    design: HardenDesign,
    head: Head[HardeningFacts],
    log: ModelLog,
    path: Path,
    track: Track[Any],
    workers: Workers,
) -> HardenedModel:
    """Train the model of the chosen setting, audit its file on fresh records, and report.

    Args:
        design: what is asked for.
        head: of the run.
        log: of the search.
        path: the run folder; what it holds already is not computed again.
        track: shows progress.
        workers: trains.

    Raises:
        TargetError: the model, or a shadow model, could not be trained.
        StoreError: something cannot be written.
    """
    settings, records = design.settings, design.records
    proposal = find_chosen(log, head.facts.ceilings).proposal
    variant = make_variant(proposal, design.models.base, settings.final_models)
    with track.step("Training the final model"):
        model = train_final(variant, records, path, head.seed)
    audit = audit_final(
        variant,
        records,
        model,
        path,
        design.final_attacks,
        RunHeading(f"{head.name}, final model", head.seed, {"trained with": variant.name}),
        settings.shadows,
        design.class_names,
        track,
        workers,
    )
    hardened = HardenedModel(head, log, path, audit)
    hardened.report()
    _write_card(hardened, len(records.searched) + int(records.member.sum()))
    return hardened


def _write_card(hardened: HardenedModel, records: int) -> None:
    """A model card: how the model was trained, whether it is under the ceilings, and its audit."""
    story = hardened.story
    claim, promised = hardened.audit.facts.claim, "Guarantee: none."
    if claim is not None:
        epsilon, delta = claim.guarantee.epsilon, claim.guarantee.delta
        promised = (
            f"Guarantee: ({epsilon:.3g}, {delta:g})-differentially private for adding or removing "
            f"{neighbour(by_person=hardened.audit.facts.people is not None)}. It covers one "
            "training, and not the choice of settings."
        )
    lines = [
        f"# {make_inert(story.name)}",
        f"Trained with {make_inert(hardened.chosen.label)} on {records:,} records.",
        promised,
        *map(make_inert, story.sentences),
        make_inert(f"{story.headline}. {story.next_step}"),
    ]
    head = hardened.audit.head
    report = make_showable(markdown.render(hardened.audit.summary))
    made = make_showable(head.created), make_showable(head.divulge)
    beside = make_all_showable(head.environment)
    card = put_section("\n\n".join(lines) + "\n", report, *made, beside)
    atomic.write_within(hardened.path, f"{MODEL}/{CARD}", card.encode())
