"""For every public function and class a call that is right, and cheap to make."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from torch import nn

import divulge
from divulge import attacks, core, defences, federation, targets, training
from divulge.attacks.catalog import CATALOGUE
from divulge.core import Round
from divulge.data.interactions import InteractionLog
from divulge.data.ranking import Queries, synthetic_queries
from divulge.targets.outputs import to_probabilities
from tests.targets.tiny_models import save_onnx

NEEDS_NO_CHECK = {
    "Audit": "made by audits",
    "CanaryAudit": "made by audits",
    "Comparison": "made by comparisons",
    "FederationVariant": "made by searches",
    "FederationTrial": "made by searches",
    "HardenedFederation": "made by searches",
    "HardenedModel": "made by searches",
    "FederationAudit": "made by audits",
    "EvidenceCheck": "made by check_evidence",
    "EvidenceManifest": "made by evidence",
    "History": "made by history",
    "LeaveOneOut": "made by audits",
    "RunDifference": "made by diff",
    "SecretAudit": "made by audits",
    "Check": "made by audits",
    "Control": "made by audits",
    "Estimate": "made by metrics",
    "Finding": "made by audits",
    "FinishedRun": "what load returns",
    "demo": "trains for seconds; its arguments are those of the other commands",
    "ImageVersions": "a named tuple, checked where it is used",
    "Header": "checked when it is written",
    "Need": "an enumeration",
    "Status": "an enumeration",
    "Verdict": "an enumeration",
    "Target": "a protocol",
    "CheckpointedNetwork": "made by training.train",
    "UPVOTE_LEARNER": "an object",
}
"""Public names that are no function or class that a user calls, and why."""


@dataclass(frozen=True)
class Call:
    """A call that is right: what is called, with what, and what is then done with the result."""

    function: Callable[..., Any]
    given: Mapping[str, Any]
    use: Callable[[Any], Any] = id
    anew: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Arguments that serve for one call alone, such as new folders."""

    def made(self, **changed: Any) -> Any:
        """What the call gives, with some arguments changed; iterators are run through."""
        anew = {name: make() for name, make in self.anew.items() if name not in changed}
        return self.use(self.function(**{**self.given, **anew, **changed}))


def network() -> nn.Module:
    return nn.Linear(3, 2)


def ask(x: np.ndarray) -> np.ndarray:
    return to_probabilities(x[:, :2], "logits", len(x))


@cache
def records(first: int = 0, count: int = 24) -> divulge.Records:
    rng = np.random.default_rng(first)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return divulge.Records(x, (np.arange(count) % 2).astype(np.int64))


@cache
def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=0).fit(records(0).x, records(0).y)


RECIPE = training.Recipe(network, epochs=1, batch_size=8)
HALF = np.arange(24)[None, :] < 12
WEIGHTS = {"w": np.ones((2, 2), np.float32), "b": np.zeros(2, np.float32)}
RANKER = {"w": torch.zeros(3, 1)}


SUBJECT = """
import numpy as np
from sklearn.tree import DecisionTreeClassifier
from torch import nn
x = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
records = members = (x, np.arange(24) % 2)
many = (np.random.default_rng(1).normal(size=(160, 3)).astype(np.float32), np.arange(160) % 2)
def train(x, y, seed):
    return DecisionTreeClassifier(random_state=seed).fit(x, y)
def network():
    return nn.Linear(3, 2)
"""
COMPARE = """
models = 3
targets = 2
[data]
records = "subject.py:records"
[[defences]]
train = "subject.py:train"
label = "tree"
[[attacks]]
name = "gap"
"""
HARDEN = """
ceiling = {auc = 1.0}
[data]
records = "subject.py:many"
[training]
network = "subject.py:network"
epochs = 1
[search]
defences = []
budget = 9
models = 3
shadows = 2
[[attacks]]
name = "gap"
"""
FEDERATE = """
rounds = 1
[data]
train = "subject.py:members"
[clients]
count = 2
[training]
network = "subject.py:network"
epochs = 1
batch_size = 8
"""
HARDEN_FEDERATION = """
rounds = 1
[data]
train = "subject.py:many"
test = "subject.py:members"
[clients]
count = 6
[training]
network = "subject.py:network"
[harden]
reference = "subject.py:members"
which_client = 1.0
budget = 2
candidates = 2
"""


def view() -> divulge.ModelView:
    """What attacks without shadow models want, of two dozen records."""
    return divulge.ModelView(
        targets.FunctionTarget(ask), records(0).joined(records(1)), records(2, 60)
    )


def guess(attack: Any) -> Any:
    """What an attack on membership guesses here, or why it cannot."""
    seen = view()
    if attack.name in CATALOGUE["membership"] and attack.needs in seen.offers:
        return attack(seen, np.random.default_rng(0))
    return None


def trained(trainer: Any) -> Any:
    return [model.predict(records(1).x) for model in trainer.many(records(), HALF, [1])]


def changed(defence: Any) -> Any:
    return defence.change(ask(records().x), records().x, 3)


def sent(defence: Any) -> Any:
    """A round of two clients behind a defence of updates."""
    told = defences.begin_round(defence, 0, WEIGHTS, {0: 1.0, 1: 1.0}, 0)
    messages = [defences.send(defence, WEIGHTS, one) for one in told.values()]
    return defences.receive(defence, messages, told[0].round)


def contexts() -> dict[int, core.ClientContext]:
    return defences.begin_round(core.UpdateDefence(), 0, WEIGHTS, {0: 1.0}, 0)


def log() -> InteractionLog:
    users = np.repeat(np.arange(4), 3)
    return InteractionLog(users, np.tile(np.arange(3), 4) + users, 4, 12)


def queries() -> Queries:
    rng = np.random.default_rng(0)
    return Queries(rng.normal(size=(24, 3)), np.tile([0, 1, 2], 8), np.repeat(np.arange(2), 12))


def header() -> federation.Header:
    return federation.Header("toy", "update", {"w": (2, 2), "b": (2,)})


def round_of_one() -> Round:
    return Round(0, "update", WEIGHTS, {"a": core.ReceivedUpdate(WEIGHTS, 3)})


def normalised() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))


def weights() -> core.Tensors:
    return {name: tensor.numpy() for name, tensor in normalised().state_dict().items()}


def fished() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return federation.craft_fishing_weights(normalised, weights(), np.ones((2, 3)), 1, rng)


def simulation() -> federation.Federation:
    return federation.Federation(records(), (np.arange(8),), RECIPE, workers=1)


def played(one: federation.Federation) -> Any:
    return next(one.rounds())


def images() -> federation.ImageVersions:
    rng = np.random.default_rng(0)
    return federation.ImageVersions(
        np.zeros((4, 3, 2, 2), np.uint8),
        np.zeros((4, 2, 3, 2, 2), np.uint8),
        rng.normal(size=(4, 2, 3)).astype(np.float32),
    )


def finished(folder: Path) -> divulge.Audit:
    """An audit with one attack."""
    return divulge.audit(tree(), members=records(0), nonmembers=records(1), attacks=[attacks.Gap()])


def text_pipeline() -> Any:
    """A language model of a few words, as `transformers.pipeline` holds one."""
    from tests.targets.test_causal_target import pipeline

    return pipeline()


def calls(folder: Path) -> dict[str, Call]:
    """By name, beginning with that of its package."""
    rng = np.random.default_rng(0)
    none = core.UpdateDefence()
    answers = folder / "answers.csv"
    answers.write_text("p_0,p_1,label,member\n" + "0.9,0.1,0,1\n0.2,0.8,0,0\n" * 20)
    (folder / "subject.py").write_text(SUBJECT)
    compared, federated = folder / "compare.toml", folder / "federate.toml"
    compared.write_text(COMPARE)
    hardened = folder / "harden.toml"
    hardened.write_text(HARDEN)
    hardened_federation = folder / "hardened-federation.toml"
    hardened_federation.write_text(HARDEN_FEDERATION)
    federated.write_text(FEDERATE)
    transcript = folder / "transcript"
    federation.Writer.begin(transcript, header()).add(round_of_one())
    toml = folder / "audit.toml"
    toml.write_text(f'[predictions]\nfile = "{answers.name}"\n[[attacks]]\nname = "gap"\n')
    run = finished(folder).save(folder / "stored")
    canaries = divulge.make_canaries(records(), folder / "canaries", 40).folder
    canary_scores = divulge.score_canaries(canaries, tree(), folder / "canary-scores.npz")
    canary_clients = divulge.make_canary_clients(folder / "canary-clients", 40).folder
    canary_transcript = folder / "canary-transcript"
    federation.simulate(
        federation.Federation(
            records(),
            (np.arange(8),),
            RECIPE,
            canaries=federation.CanaryClients(canary_clients, 1.0),
            workers=1,
        ),
        1,
        canary_transcript,
    )
    gap = [attacks.Gap()]
    few = divulge.Rotation(3, targets=2)
    records_given: dict[str, Any] = {
        "members": records(0),
        "nonmembers": records(1),
        "attacks": gap,
    }
    found = finished(folder)
    fresh = iter(range(10**9))

    def new() -> Path:
        return folder / f"new-{next(fresh)}"

    begun = partial(_begin, new)
    plain: dict[str, Call] = {
        "divulge.Access": Call(divulge.Access, {}),
        "divulge.Options": Call(
            divulge.Options,
            {},
            lambda o: divulge.audit(tree(), **records_given, options=replace(o, resume=False)),
        ),
        "divulge.Rotation": Call(divulge.Rotation, {}),
        "divulge.ShadowModels": Call(
            divulge.ShadowModels,
            {"models": 0},
            lambda s: divulge.audit(tree(), **records_given, shadows=replace(s, models=0)),
        ),
        "divulge.Guarantee": Call(divulge.Guarantee, {"epsilon": 1.0, "delta": 1e-5}),
        "divulge.KnownFeatures": Call(
            divulge.KnownFeatures,
            {"share": 0.5},
            lambda k: k.mask((4, 3), ("a", "b", "c"), np.random.default_rng(0)),
        ),
        "divulge.Records": Call(divulge.Records, {"x": np.ones((2, 3)), "y": np.array([0, 1])}),
        "divulge.Scores": Call(divulge.Scores, {"score": np.ones(3)}),
        "divulge.Membership": Call(divulge.Membership, {"member": np.ones(3, bool)}),
        "divulge.Game": Call(divulge.Game, {"view": view(), "truth": None}),
        "divulge.ModelView": Call(
            divulge.ModelView, {"target": targets.FunctionTarget(ask), "records": records()}
        ),
        "divulge.attack": Call(divulge.attack, {"name": "gap"}),
        "divulge.audit": Call(divulge.audit, {"model": tree(), **records_given}),
        "divulge.audit_file": Call(divulge.audit_file, {"path": toml}, anew={"run": new}),
        "divulge.Texts": Call(divulge.Texts, {}),
        "divulge.audit_predictions": Call(divulge.audit_predictions, {"path": answers}),
        "divulge.compare": Call(
            divulge.compare,
            {"defences": {"tree": _fit}, "records": records(), "attacks": gap, "rotation": few},
        ),
        "divulge.compare_file": Call(divulge.compare_file, {"path": compared}, anew={"run": new}),
        "divulge.estimate": Call(
            divulge.estimate, {"train": _fit, "records": records(), "models": 1}
        ),
        "divulge.scorer": Call(
            divulge.scorer,
            {
                "metric": "auc",
                "x": records().x,
                "y": records().y,
                "cv": [(np.arange(12), np.arange(12, 24))],
            },
        ),
        "divulge.StatedSampling": Call(
            divulge.StatedSampling, {"records": 40, "rate": 0.5, "steps": 3, "divisor": 20.0}
        ),
        "divulge.CanaryRecorder": Call(
            divulge.CanaryRecorder,
            {"canaries": canaries, "network": network(), "path": folder / "watched.npz"},
        ),
        "divulge.audit_canaries": Call(
            divulge.audit_canaries,
            {"canaries": canaries, "scores": [canary_scores], "epsilon": 1.0, "delta": 1e-5},
        ),
        "divulge.make_canaries": Call(
            divulge.make_canaries, {"records": records(), "count": 40}, anew={"folder": new}
        ),
        "divulge.make_canary_clients": Call(
            divulge.make_canary_clients, {"count": 40}, anew={"folder": new}
        ),
        "divulge.score_transcript": Call(
            divulge.score_transcript,
            {
                "canaries": canary_clients,
                "transcript": canary_transcript,
                "path": folder / "of-rounds.npz",
            },
        ),
        "divulge.plan_canaries": Call(
            divulge.plan_canaries, {"epsilon": 100.0, "delta": 1e-5, "canaries": 20}
        ),
        "divulge.score_canaries": Call(
            divulge.score_canaries,
            {"canaries": canaries, "model": tree(), "path": folder / "asked.npz"},
        ),
        "divulge.score_checkpoints": Call(
            divulge.score_checkpoints,
            {
                "canaries": canaries,
                "network": network(),
                "checkpoints": [network().state_dict(), network().state_dict()],
                "path": folder / "points.npz",
            },
        ),
        "divulge.check_attack": Call(divulge.check_attack, {"attack": "gap"}),
        "divulge.estimate_file": Call(divulge.estimate_file, {"path": compared}),
        "divulge.SearchSettings": Call(divulge.SearchSettings, {}),
        "divulge.harden": Call(
            divulge.harden,
            {
                "how": training.Recipe(network, epochs=1),
                "records": records(0, 160),
                "ceiling": {"auc": 1.0},
                "attacks": gap,
                "search": divulge.SearchSettings((), budget=9, models=3, shadows=2),
            },
            anew={"run": new},
        ),
        "divulge.FederationLimits": Call(divulge.FederationLimits, {"which_client": 1.0}),
        "divulge.harden_federation": Call(
            divulge.harden_federation,
            {
                "federation": federation.Federation(
                    records(0, 48), np.split(np.arange(48), 6), RECIPE, workers=1
                ),
                "limits": divulge.FederationLimits(which_client=1.0),
                "test": records(1, 8),
                "reference": records(2, 8),
                "rounds": 1,
                "budget": 2,
                "defences": (),
                "candidates": 2,
            },
            anew={"run": new},
        ),
        "divulge.harden_federation_file": Call(
            divulge.harden_federation_file, {"path": hardened_federation}, anew={"run": new}
        ),
        "divulge.harden_ranker": Call(
            divulge.harden_ranker,
            {
                "world": federation.Searching(
                    synthetic_queries(8, 3, np.random.default_rng(0)),
                    federation.published_click_model("informational", 3),
                ),
                "test": synthetic_queries(2, 3, np.random.default_rng(1)),
                "limits": divulge.FederationLimits(interactions=1.0),
                "asked": 2,
                "users": 2,
                "budget": 2,
                "defences": (),
            },
            anew={"run": new},
        ),
        "divulge.harden_file": Call(divulge.harden_file, {"path": hardened}, anew={"run": new}),
        "divulge.export": Call(divulge.export, {"run": run, "junit": folder / "junit.xml"}),
        "divulge.evidence": Call(divulge.evidence, {"run": run, "pack": folder / "pack.zip"}),
        "divulge.check_evidence": Call(
            divulge.check_evidence, {"pack": divulge.evidence(run, folder / "checked.zip")}
        ),
        "divulge.federate_file": Call(
            divulge.federate_file, {"path": federated}, anew={"run": new}
        ),
        "divulge.diff": Call(divulge.diff, {"before": run, "after": run}),
        "divulge.history": Call(divulge.history, {"runs": [run, run]}),
        "divulge.leave_one_out": Call(
            divulge.leave_one_out,
            {"train": _fit, "records": records(), "attacks": gap, "rotation": few},
        ),
        "divulge.load": Call(divulge.load, {"run": run}),
        "divulge.plan": Call(divulge.plan, {"members": 20, "nonmembers": 20}),
        "divulge.plan_file": Call(divulge.plan_file, {"path": toml}),
        "divulge.Audit.gate": Call(found.gate, {"fail_on": ["leak"]}),
        "divulge.Audit.difference": Call(found.difference, {"attack": "gap", "other": "gap"}),
        "divulge.Audit.exposed": Call(found.exposed, {}),
        "divulge.Audit.report": Call(found.report, {"path": folder / "page.html"}),
        "divulge.Audit.save": Call(found.save, {}, anew={"path": new}),
        "training.Recipe": Call(
            training.Recipe, {"network": network}, lambda r: trained(training.Fleet(_brief(r)))
        ),
        "training.train": Call(training.train, {"recipe": RECIPE, "records": records()}),
        "training.Fleet": Call(training.Fleet, {"recipe": RECIPE, "way": "one-by-one"}),
        "training.ClientWorkers": Call(
            training.ClientWorkers, {"recipe": RECIPE, "pool": records(), "workers": 1}
        ),
        "training.ShadowPlan": Call(
            training.ShadowPlan, {"trainer": training.as_trainer(tree()), "models": 2}
        ),
        "training.as_trainer": Call(training.as_trainer, {"how": tree()}),
        "targets.CausalTarget": Call(
            targets.CausalTarget, {"pipeline": text_pipeline()}, lambda t: t.predict(["1 2", "3 4"])
        ),
        "targets.DefendedTarget": Call(
            targets.DefendedTarget,
            {"target": targets.FunctionTarget(ask), "defence": defences.Rounding()},
        ),
        "targets.Extractor": Call(targets.Extractor, {"module": network()}),
        "targets.FunctionTarget": Call(
            targets.FunctionTarget, {"function": ask}, lambda t: t.predict(records().x)
        ),
        "targets.HTTPTarget": Call(
            targets.HTTPTarget, {"url": "https://models.example/predict", "fingerprint": "1"}
        ),
        "targets.OnnxTarget": Call(targets.OnnxTarget, {"path": save_onnx(folder / "tiny.onnx")}),
        "targets.PredictionTable": Call(
            targets.PredictionTable,
            {
                "rows": ask(records().x),
                "label": records().y,
                "member": HALF[0],
                "output": "probabilities",
            },
        ),
        "targets.SklearnRegressor": Call(
            targets.SklearnRegressor,
            {"estimator": DecisionTreeRegressor().fit(records().x, records().y)},
        ),
        "targets.SklearnTarget": Call(targets.SklearnTarget, {"estimator": tree()}),
        "targets.TorchTarget": Call(
            targets.TorchTarget,
            {"module": network(), "output": "logits"},
            lambda t: t.predict(records().x),
        ),
        "defences.begin_round": Call(
            defences.begin_round,
            {"defence": none, "number": 0, "weights": WEIGHTS, "shares": {0: 1.0}, "seed": 0},
        ),
        "defences.chain": Call(lambda one: defences.chain(one), {"one": defences.Sign()}),
        "defences.layer_norm": Call(defences.layer_norm, {"module": network()}),
        "defences.TextLoss": Call(defences.TextLoss, {"model": network(), "fill": 0}),
        "defences.send": Call(
            defences.send, {"defence": none, "update": WEIGHTS, "context": contexts()[0]}
        ),
        "defences.receive": Call(
            defences.receive,
            {
                "defence": none,
                "messages": [defences.send(none, WEIGHTS, contexts()[0])],
                "context": contexts()[0].round,
            },
        ),
        "federation.ClickModel": Call(
            federation.ClickModel, {"click": (0.1, 0.5, 0.9), "stop": (0.1, 0.5, 0.9)}
        ),
        "federation.CanaryClients": Call(
            federation.CanaryClients, {"folder": canary_clients, "norm": 1.0}
        ),
        "federation.Federation": Call(
            federation.Federation,
            {"pool": records(), "clients": (np.arange(8),), "recipe": RECIPE, "workers": 1},
            played,
        ),
        "federation.InferredMix": Call(
            federation.InferredMix,
            {"attack": attacks.LabelCounts(), "network": network, "reference": records()},
        ),
        "federation.NamedRecords": Call(
            federation.NamedRecords,
            {"network": network, "records": records(), "others": records()},
        ),
        "federation.NeuralCF": Call(federation.NeuralCF, {}),
        "federation.NoiseInjection": Call(
            federation.NoiseInjection, {}, lambda n: n(records().x.astype(float), rng)
        ),
        "federation.OwnInteractions": Call(
            federation.OwnInteractions,
            {
                "attack": attacks.RandomInteractions(),
                "items": np.ones((3, 2)),
                "acted": np.ones(3, bool),
                "learner": None,
            },
        ),
        "federation.Pairwise": Call(federation.Pairwise, {"query": np.array([0, 0, 1, 1])}),
        "federation.PixelNoise": Call(federation.PixelNoise, {}),
        "federation.Pointwise": Call(federation.Pointwise, {}),
        "federation.Recommending": Call(
            federation.Recommending, {"log": log(), "learner": federation.NeuralCF(2, (2,), 1)}
        ),
        "federation.Searching": Call(
            federation.Searching,
            {
                "queries": queries(),
                "clicks": federation.published_click_model("informational", 3),
                "shown": 4,
            },
        ),
        "federation.Transcript": Call(
            federation.Transcript, {"header": header(), "rounds": (round_of_one(),)}
        ),
        "federation.Transcript.open": Call(federation.Transcript.open, {"folder": transcript}),
        "federation.TranscriptUpdates": Call(
            federation.TranscriptUpdates,
            {"rounds": (round_of_one(),), "clients": ("a",), "network": network},
        ),
        "federation.Writer": Call(federation.Writer, {"folder": folder, "header": header()}),
        "federation.Writer.begin": Call(
            federation.Writer.begin, {"header": header()}, anew={"folder": new}
        ),
        "federation.Writer.add": Call(begun, {"seen": round_of_one()}),
        "federation.accuracy": Call(
            federation.accuracy, {"test": records()}, lambda evaluate: evaluate(network())
        ),
        "federation.dirichlet": Call(
            federation.dirichlet, {"pool": records(), "sizes": [8, 8], "alpha": 1.0}
        ),
        "federation.count_fished_labels": Call(
            federation.count_fished_labels,
            {"total": fished()[0].sent, "fishing": fished(), "records": [5], "lr": 0.1},
        ),
        "federation.craft_fishing_weights": Call(
            federation.craft_fishing_weights,
            {
                "network": normalised,
                "sent": weights(),
                "x": np.ones((2, 3)),
                "clients": 1,
                "rng": rng,
            },
        ),
        "federation.exact": Call(
            federation.exact, {"pool": records(), "counts": np.array([[2, 3], [1, 1]])}
        ),
        "federation.iid": Call(federation.iid, {"pool": records(), "sizes": [8, 8]}),
        "federation.published_click_model": Call(
            federation.published_click_model, {"habit": "informational", "grades": 3}
        ),
        "federation.ranker": Call(
            federation.ranker, {"features": 3, "hidden": 2, "generator": torch.Generator()}
        ),
        "federation.shares_of_biases": Call(
            federation.shares_of_biases,
            {"change": np.array([0.1, -0.1]), "step": 1.0, "answers": np.eye(2) * 0.8 + 0.1},
        ),
        "federation.simulate": Call(federation.simulate, {"federation": simulation(), "rounds": 1}),
        "federation.simulate_federated_models": Call(
            federation.simulate_federated_models,
            {
                "pool": records(0, 60),
                "recipe": RECIPE,
                "sizes": [10, 10],
                "rounds": 1,
                "rng": rng,
            },
        ),
        "federation.simulate_local_models": Call(
            federation.simulate_local_models,
            {
                "pool": records(0, 60),
                "trainer": training.as_trainer(_fit),
                "sizes": [10, 10],
                "rng": rng,
            },
        ),
        "federation.simulate_upvote_round": Call(
            federation.simulate_upvote_round,
            {
                "weights": federation.ranker(3, 0, torch.Generator()),
                "images": images(),
                "users": 1,
                "count": 2,
                "defence": none,
                "rng": rng,
            },
        ),
        "federation.upvote_challenge": Call(
            federation.upvote_challenge,
            {
                "weights": federation.ranker(3, 0, torch.Generator()),
                "features": np.ones((3, 3), np.float32),
                "defence": none,
                "rng": rng,
            },
        ),
    }
    attack_calls = {
        f"attacks.{name}": Call(getattr(attacks, name), {}, guess) for name in dir(attacks)
    }
    around = {"recipe": replace(RECIPE, select="loss"), "way": "one-by-one"}
    trainers = {
        f"defences.{name}": Call(getattr(defences, name), around)
        for name in (
            "AdversarialRegularisation", "Augmentation", "ComplementaryDistillation",
            "ConvexConcaveLoss", "DAP", "EarlyStopping", "HAMP", "ImageAugmentation",
            "LabelSmoothing", "MIST", "Regularise", "RelaxLoss", "SELENA",
        )
    }  # fmt: skip
    of_answers = {
        f"defences.{name}": Call(getattr(defences, name), {}, changed)
        for name in ("AnswerNoise", "RankOrder", "Rounding", "Temperature", "TopOne")
    }
    of_updates = {
        f"defences.{name}": Call(getattr(defences, name), {}, sent)
        for name in ("OwnLastLayer", "SecureSum", "Sign", "TopK")
    }
    private = Call(defences.DPSGD, {"recipe": RECIPE, "delta": 1e-5, "noise_multiplier": 1.0})
    averaged = Call(defences.Averaging, {"trainer": training.as_trainer(tree()), "models": 2})
    noisy = Call(defences.LocalNoise, {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0}, sent)
    return {
        **plain,
        **attack_calls,
        **trainers,
        **of_answers,
        **of_updates,
        "defences.DPSGD": private,
        "defences.Averaging": averaged,
        "defences.LocalNoise": noisy,
        "defences.DPFedAvg": Call(
            defences.DPFedAvg, {"noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5}, sent
        ),
        "defences.SeededNoise": Call(defences.SeededNoise, {"rng": np.random.default_rng(0)}),
        "defences.SecureNoise": Call(defences.SecureNoise, {}),
    }


def _fit(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    return DecisionTreeClassifier(random_state=seed).fit(x, y)


def _brief(recipe: Any) -> Any:
    return replace(recipe, epochs=1)


def _begin(new: Callable[[], Path], seen: Any) -> None:
    federation.Writer.begin(new(), header()).add(seen)
