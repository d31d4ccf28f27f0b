"""Run one benchmark: ``python -m benchmarks NAME [--quick]``; without a name, list them."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks import (
    bfloat16,
    canaries,
    canary_federations,
    canary_flower,
    cascade,
    cluster,
    colluder,
    communities,
    coverage,
    decaf,
    decaf_curve,
    decaf_digits,
    decaf_full_width,
    decaf_rates,
    decaf_settings,
    decoys,
    defences,
    dp_fine_tunes,
    dp_sgd,
    epsilon_bounds,
    epsilon_limit,
    epsilon_order_statistics,
    exposed,
    false_claims,
    federation,
    fleet,
    flower,
    full_width,
    genotype_kernel,
    growth,
    hardened_federation,
    hardening,
    http,
    inverse_hessian,
    kills,
    label_noise,
    language_models,
    laplace_posteriors,
    large_tables,
    leak_test,
    loss_trace,
    manipulation_seen,
    metric_sequence,
    near_copies,
    nist_width,
    nulls,
    one_pass,
    partial_fills,
    partial_knowledge,
    people,
    people_audits,
    people_data,
    preferences,
    projected_updates,
    quoted_rates,
    raifle,
    raifle_curve,
    raifle_images,
    raifle_images_descent,
    raifle_released,
    raifle_reversed,
    recorded_rounds,
    regression,
    remedies,
    secure_noise,
    shifts,
    stacking_folds,
    start,
    table_intervals,
    threshold_signals,
    token_speed,
    unknown_truth,
    which_client,
)
from benchmarks.peers import labels as labels_only
from benchmarks.peers import tables as peers
from benchmarks.shadow_quality import half_trained, other_tools, temperature, thresholds
from benchmarks.shadow_quality import measure as shadow_quality
from benchmarks.shadow_quality.tasks import TASKS
from benchmarks.timing import MissingData, MissingPeer, MissingProcessor, Outcome, verdict


class Benchmark(NamedTuple):
    """One entry of the list."""

    summary: str
    run: Callable[[bool], Outcome | None]
    """Function that runs it, quick or in full; it returns None where no times are compared."""


BENCHMARKS = {
    "threshold-signals": Benchmark(threshold_signals.SUMMARY, threshold_signals.run),
    "shadow-thresholds": Benchmark(thresholds.SUMMARY, thresholds.run),
    "temperature": Benchmark(temperature.SUMMARY, temperature.run),
    "inverse-hessian": Benchmark(inverse_hessian.SUMMARY, inverse_hessian.run),
    **{
        f"metric-sequence-{name}": Benchmark(
            f"{metric_sequence.SUMMARY}: {name}", partial(metric_sequence.run, name=name)
        )
        for name in metric_sequence.NAMES
    },
    **{
        f"hardening-{name}": Benchmark(
            f"{hardening.SUMMARY}: {name}", partial(hardening.run, name=name)
        )
        for name in hardening.TASKS
    },
    **{
        f"hardening-singles-{name}": Benchmark(
            f"{hardening.SINGLES}: {name}", partial(hardening.run_singles, name=name)
        )
        for name in hardening.TASKS
    },
    **{
        f"hardening-aop-{name}": Benchmark(
            f"{hardening.AOP}: {name}", partial(hardening.run_aop, name=name)
        )
        for name in hardening.TASKS
    },
    **{
        f"hardened-federation-{name}": Benchmark(
            f"{hardened_federation.SUMMARY}: {name}", partial(hardened_federation.run, name=name)
        )
        for name in hardened_federation.TASKS
    },
    "defences": Benchmark(defences.SUMMARY, defences.run),
    "loss-trace": Benchmark(loss_trace.SUMMARY, loss_trace.run),
    "one-pass": Benchmark(one_pass.SUMMARY, one_pass.run),
    "fleet": Benchmark(fleet.SUMMARY, fleet.run),
    "bfloat16": Benchmark(bfloat16.SUMMARY, bfloat16.run),
    "flower": Benchmark(flower.SUMMARY, flower.run),
    "federation": Benchmark(federation.SUMMARY, federation.run),
    "quality": Benchmark(
        f"{shadow_quality.SUMMARY}: all targets, up to 16", shadow_quality.run_all
    ),
    "half-trained-shadows": Benchmark(half_trained.SUMMARY, half_trained.run),
    "quality-peers": Benchmark(other_tools.SUMMARY, other_tools.run),
    **{
        f"quality-{name}": Benchmark(
            f"{shadow_quality.SUMMARY}: {name}, up to 16", partial(shadow_quality.run, name=name)
        )
        for name in TASKS
    },
    **{
        f"quality-{name}-64": Benchmark(
            f"{shadow_quality.SUMMARY}: {name}", partial(shadow_quality.run, name=name, shadows=64)
        )
        for name in TASKS
    },
    **{
        f"cascade-{name}": Benchmark(f"{cascade.SUMMARY}: {name}", partial(cascade.run, name=name))
        for name in TASKS
    },
    "raifle": Benchmark(raifle.SUMMARY, raifle.run),
    "raifle-curve": Benchmark(raifle_curve.SUMMARY, raifle_curve.run),
    "raifle-images": Benchmark(raifle_images.SUMMARY, raifle_images.run),
    "raifle-images-descent": Benchmark(raifle_images_descent.SUMMARY, raifle_images_descent.run),
    "raifle-released": Benchmark(raifle_released.SUMMARY, raifle_released.run),
    "raifle-reversed": Benchmark(raifle_reversed.SUMMARY, raifle_reversed.run),
    "raifle-noise": Benchmark(raifle_reversed.NOISE, raifle_reversed.run_noise),
    "manipulation-seen": Benchmark(manipulation_seen.SUMMARY, manipulation_seen.run),
    **{
        f"which-client-{name}": Benchmark(
            f"{which_client.SUMMARY}: {name}", partial(which_client.run, name=name)
        )
        for name in which_client.TASKS
    },
    **{
        f"decoys-{name}": Benchmark(f"{decoys.SUMMARY}: {name}", partial(decoys.run, name=name))
        for name in communities.LOGS
    },
    **{
        f"communities-{name}": Benchmark(
            f"{communities.SUMMARY}: {name}", partial(communities.run, name=name)
        )
        for name in communities.LOGS
    },
    **{
        f"preferences-{name}": Benchmark(
            f"{preferences.SUMMARY}: {name}", partial(preferences.run, name=name)
        )
        for name in communities.LOGS
    },
    **{
        f"recorded-rounds-{name}": Benchmark(
            f"{recorded_rounds.SUMMARY}: {name}", partial(recorded_rounds.run, name=name)
        )
        for name in recorded_rounds.TASKS
    },
    **{
        f"projected-updates-{name}": Benchmark(
            f"{projected_updates.SUMMARY}: {name}", partial(projected_updates.run, name=name)
        )
        for name in projected_updates.POOLS
    },
    "laplace-posteriors": Benchmark(laplace_posteriors.SUMMARY, laplace_posteriors.run),
    "colluder": Benchmark(colluder.SUMMARY, colluder.run),
    "coverage": Benchmark(coverage.SUMMARY, coverage.run),
    "quoted-rates": Benchmark(quoted_rates.SUMMARY, quoted_rates.run),
    "exposed": Benchmark(exposed.SUMMARY, exposed.run),
    "false-claims": Benchmark(false_claims.SUMMARY, false_claims.run),
    "http": Benchmark(http.SUMMARY, http.run),
    "genotype-kernel": Benchmark(genotype_kernel.SUMMARY, genotype_kernel.run),
    "full-width": Benchmark(full_width.SUMMARY, full_width.run),
    "nist-width": Benchmark(nist_width.SUMMARY, nist_width.run),
    "nist-overfitted": Benchmark(nist_width.OVERFITTED, nist_width.run_overfitted),
    "label-noise": Benchmark(label_noise.SUMMARY, label_noise.run),
    "table-intervals": Benchmark(table_intervals.SUMMARY, table_intervals.run),
    "regression": Benchmark(regression.SUMMARY, regression.run),
    "remedies": Benchmark(remedies.SUMMARY, remedies.run),
    "partial": Benchmark(partial_knowledge.SUMMARY, partial_knowledge.run),
    **{
        f"partial-fills-{name}": Benchmark(
            f"{partial_fills.SUMMARY}: {name}", partial(partial_fills.run, name=name)
        )
        for name in partial_fills.TASKS
    },
    "dp-sgd": Benchmark(dp_sgd.SUMMARY, dp_sgd.run),
    "dp-sgd-times": Benchmark(dp_sgd.TIMES, dp_sgd.run_times),
    **{
        f"secure-noise-{name}": Benchmark(
            f"{secure_noise.SUMMARY}: {name}", partial(secure_noise.run, name=name)
        )
        for name in secure_noise.USES
    },
    "epsilon-bounds": Benchmark(epsilon_bounds.SUMMARY, epsilon_bounds.run),
    "epsilon-limit": Benchmark(epsilon_limit.SUMMARY, epsilon_limit.run),
    "epsilon-order-statistics": Benchmark(
        epsilon_order_statistics.SUMMARY, epsilon_order_statistics.run
    ),
    "canaries": Benchmark(canaries.SUMMARY, canaries.run),
    "dp-fine-tunes": Benchmark(dp_fine_tunes.SUMMARY, dp_fine_tunes.run),
    "canary-federations": Benchmark(canary_federations.SUMMARY, canary_federations.run),
    "canary-flower": Benchmark(canary_flower.SUMMARY, canary_flower.run),
    "decaf": Benchmark(decaf.SUMMARY, decaf.run),
    "decaf-curve": Benchmark(decaf_curve.SUMMARY, decaf_curve.run),
    "decaf-digits": Benchmark(decaf_digits.SUMMARY, decaf_digits.run),
    **{
        name: Benchmark(decaf_full_width.SUMMARY, call)
        for name, call in decaf_full_width.PARTS.items()
    },
    "decaf-settings": Benchmark(decaf_settings.SUMMARY, decaf_settings.run),
    **{name: Benchmark(decaf_rates.SUMMARY, call) for name, call in decaf_rates.PARTS.items()},
    **{
        name: Benchmark(stacking_folds.SUMMARY, call) for name, call in stacking_folds.PARTS.items()
    },
    "labels-only": Benchmark(labels_only.SUMMARY, labels_only.run),
    "peers": Benchmark(peers.SUMMARY, peers.run),
    **{name: Benchmark(summary, call) for name, summary, call in peers.parts()},
    "cluster": Benchmark(cluster.SUMMARY, cluster.run),
    "kills": Benchmark(kills.SUMMARY, kills.run),
    "language-models": Benchmark(language_models.SUMMARY, language_models.run),
    "token-speed": Benchmark(token_speed.SUMMARY, token_speed.run),
    "growth": Benchmark(growth.SUMMARY, growth.run),
    "large-tables": Benchmark(large_tables.SUMMARY, large_tables.run),
    "large-tables-million": Benchmark(
        "CPU seconds and peak memory of audits of a million answers and of 200,000 records",
        large_tables.run_million,
    ),
    "start": Benchmark(start.SUMMARY, start.run),
    "people": Benchmark(people.SUMMARY, people.run),
    "people-audits": Benchmark(people_audits.SUMMARY, people_audits.run),
    "people-size": Benchmark(people_audits.SIZE, people_audits.run_size),
    **{
        f"people-{name}": Benchmark(
            f"{people_data.SUMMARY}: {name}", partial(people_data.run, name=name)
        )
        for name in people_data.TASKS
    },
    "leak-test": Benchmark(leak_test.SUMMARY, leak_test.run),
    "shifts": Benchmark(shifts.SUMMARY, shifts.run),
    "near-copies": Benchmark(near_copies.SUMMARY, near_copies.run),
    "nulls": Benchmark(nulls.SUMMARY, nulls.run),
    "unknown-truth": Benchmark(unknown_truth.SUMMARY, unknown_truth.run),
}

MISSING = 2  # exit code


def main() -> int:
    """Run what the command line asks for; 0 when measured, 2 when something is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=BENCHMARKS, help="which; all are listed without")
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial, not a figure")
    arguments = parser.parse_args()
    if arguments.name is None:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:38}{benchmark.summary}")
        return 0
    try:
        outcome = BENCHMARKS[arguments.name].run(arguments.quick)
    except (MissingPeer, MissingData, MissingProcessor) as error:
        print(error, file=sys.stderr)
        return MISSING
    if outcome is not None:
        print(verdict(arguments.name, outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
