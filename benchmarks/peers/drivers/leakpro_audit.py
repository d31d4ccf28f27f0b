"""LeakPro's audit of a target that it is given as weights.

What its chain of imports needs and its attacks do not use is an empty module where it is absent.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

UNUSED = (
    "transformers", "ts2vec", "umap", "numba", "sentence_transformers", "datasets", "torchmetrics",
    "ignite", "torchvision", "albumentations", "kornia", "lpips", "robustness", "blobfile",
    "mpi4py", "cv2",
)  # fmt: skip


class _Empty(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "jit":
            return lambda *_, **__: lambda function: function
        return type(name, (), {"__init__": lambda *_, **__: None})


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    names = frozenset(name for name in UNUSED if importlib.util.find_spec(name) is None)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        del path, target
        ours = name.partition(".")[0] in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.append(_Absent())
os.environ.setdefault("MPLBACKEND", "Agg")

import joblib  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import yaml  # type: ignore[import-untyped]  # noqa: E402
from leakpro import AbstractInputHandler, LeakPro  # noqa: E402
from leakpro.attacks.utils.shadow_model_handler import ShadowModelHandler  # noqa: E402
from leakpro.schemas import (  # noqa: E402
    EvalOutput,
    ShadowModelTrainingSchema,
    TrainingOutput,
)
from torch import nn  # noqa: E402

from benchmarks.networks import dense  # noqa: E402
from benchmarks.peers.drivers import plain  # noqa: E402
from benchmarks.peers.drivers.desk import Desk  # noqa: E402


class Network(nn.Module):
    """The task's network, as LeakPro makes it anew: by keyword arguments that it reads back."""

    def __init__(self, columns: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.columns, self.hidden, self.classes = columns, hidden, classes
        self.net = dense(columns, hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.net(x)
        return logits


class Handler(AbstractInputHandler):  # type: ignore[misc]
    """Trains as `plain` does."""

    def train(
        self, dataloader: Any, model: Any, criterion: Any = None, optimizer: Any = None,
        epochs: int = 1,
    ) -> Any:  # fmt: skip
        """One model."""
        model.train()
        for _ in range(epochs):
            for x, y in dataloader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        return TrainingOutput(model=model, metrics=self.eval(dataloader, model, criterion))

    def eval(self, loader: Any, model: Any, criterion: Any, device: str = "cpu") -> Any:
        """Accuracy and loss."""
        del device
        model.eval()
        right, total, loss = 0, 0, 0.0
        with torch.no_grad():
            for x, y in loader:
                z = model(x)
                loss += float(criterion(z, y)) * len(y)
                right += int((z.argmax(1) == y).sum())
                total += len(y)
        return EvalOutput(accuracy=right / total, loss=loss / total)

    class UserDataset(AbstractInputHandler.UserDataset):  # type: ignore[misc]
        """Arrays as tensors."""

        def __init__(self, data: Any, targets: Any, **_: Any) -> None:
            self.data = torch.as_tensor(data).float()
            self.targets = torch.as_tensor(targets).long()


class Population(NamedTuple):
    """Records that LeakPro may draw on, and which of them the audit is about."""

    x: np.ndarray
    y: np.ndarray
    members: np.ndarray
    """Positions of the target's training records."""
    others: np.ndarray
    """Positions of the non-members."""


def prepare(
    out: Path,
    settings: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    population: Population,
    attacks: list[dict[str, Any]],
) -> Any:
    """Write the files that LeakPro reads, and start it on them.

    Args:
        out: an existing folder.
        settings: of the task.
        weights: of the target.
        population: the records.
        attacks: its settings of each attack.
    """
    (out / "target").mkdir()
    torch.manual_seed(0)
    np.random.seed(0)
    torch.set_num_threads(1)
    records = Handler.UserDataset(population.x, population.y)
    joblib.dump(records, out / "population.pkl")
    columns, hidden, classes = settings["widths"]
    model = Network(columns, hidden, classes)
    model.net = plain.load_network(settings, weights)
    with (out / "target" / "target_model.pkl").open("wb") as stream:
        torch.save(model.state_dict(), stream)
    metadata = _metadata(settings, model, records, population)
    joblib.dump(metadata, out / "target" / "model_metadata.pkl")
    audit = {
        "audit": {
            "random_seed": 0, "attack_type": "mia", "attack_list": attacks,
            "output_dir": str(out / "audit"), "data_modality": "tabular",
        },
        "target": {
            "module_path": __file__, "model_class": "Network",
            "target_folder": str(out / "target"), "data_path": str(out / "population.pkl"),
        },
    }  # fmt: skip
    (out / "audit.yaml").write_text(yaml.safe_dump(audit))
    return LeakPro(Handler, str(out / "audit.yaml"))


def _metadata(
    settings: Mapping[str, Any], model: Network, records: Any, population: Population
) -> Any:
    """How the target was trained, which LeakPro trains its shadows by."""
    criterion = nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(
        model.parameters(), lr=settings["lr"], momentum=settings["momentum"]
    )
    handler = Handler.__new__(Handler)
    loaders: list[Any] = [
        torch.utils.data.DataLoader(
            torch.utils.data.Subset(records, part.tolist()), settings["batch"], shuffle=True
        )
        for part in (population.members, population.others)
    ]
    training_metrics, test_metrics = (
        Handler.eval(handler, loader, model, criterion) for loader in loaders
    )
    return LeakPro.make_mia_metadata(
        TrainingOutput(model=model, metrics=training_metrics), optimiser, criterion, loaders[0],
        test_metrics, settings["epochs"], population.members.tolist(), population.others.tolist(),
        "task",
    )  # fmt: skip


def store_shadows(desk: Desk) -> None:
    """Put the task's shadows where LeakPro keeps those of earlier audits, as it stores its own."""
    keeps, settings = ShadowModelHandler(), desk.settings
    unmeasured = EvalOutput(accuracy=0.0, loss=0.0)
    for k, half in enumerate(desk.arrays("shadows")["member"]):
        model = Network(*settings["widths"])
        weights = desk.arrays(f"shadow-{k}")
        model.net.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
        torch.save(model.state_dict(), f"{keeps.storage_path}/{keeps.model_storage_name}_{k}.pkl")
        rows = np.flatnonzero(half).tolist()
        metadata = ShadowModelTrainingSchema(
            init_params=keeps.init_params,
            train_indices=rows,
            num_train=len(rows),
            optimizer=keeps.optimizer_name,
            optimizer_params=keeps.optimizer_config,
            criterion=keeps.criterion_name,
            criterion_params=keeps.loss_config,
            epochs=keeps.epochs,
            batch_size=keeps.batch_size,
            train_result=unmeasured,
            test_result=unmeasured,
            model_class=keeps.model_class,
            model_module_path=keeps.model_path,
            target_model_hash=keeps.target_model_hash,
            population_hash=keeps.population_hash,
        )
        path = Path(f"{keeps.storage_path}/{keeps.metadata_storage_name}_{k}.pkl")
        path.write_bytes(pickle.dumps(metadata))


def place(result: Any, member: np.ndarray) -> np.ndarray:
    """Its scores at records of the right side: it says who is a member, and not which record.

    Args:
        result: its result.
        member: membership of all records; where it scored fewer, the first of each side.
    """
    score = np.full(len(member), np.nan)
    signal, true = np.ravel(result.signal_values), np.ravel(result.true).astype(bool)
    for side in (True, False):
        score[np.flatnonzero(member == side)[: np.sum(true == side)]] = signal[true == side]
    return score
