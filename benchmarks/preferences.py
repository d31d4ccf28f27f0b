"""Where a recommender's user keeps what it likes: in what it sends, or in what it keeps."""

import numpy as np

from benchmarks import data
from benchmarks.communities import LOGS
from divulge._util.random import stream
from divulge.core import Membership, Scores, UpdateDefence
from divulge.metrics import intervals
from divulge.metrics.measure import measure

SUMMARY = "AUC of a user's items by the parameters that it sends, and by those that it keeps"

SEEDS, USERS = 5, 20

PARTS = ("all that was trained", "what is sent, another user", "what is kept, as before", "nothing")


def run(quick: bool, name: str) -> None:  # noqa: FBT001 (like every benchmark)
    """Print means over federations, with Student's intervals.

    Each user trains once on the items that it was shown. Then the network scores these items: by
    the trained parameters; by the trained item embeddings and network with the private embedding of
    another user; by the trained private embedding with what the server had sent; by nothing that
    was trained.

    Raises:
        MissingData: the interactions are not there.
    """
    import torch

    from divulge.federation.recommender.model import ITEMS, NeuralCF
    from divulge.federation.recommender.users import Recommending

    torch.set_num_threads(1)
    read, file = LOGS[name]
    log, learner = read(data.file(file)), NeuralCF()
    aucs = []
    for seed in range(2 if quick else SEEDS):
        world = Recommending(log, learner, seed=seed)
        users = stream(seed, "preferences", name).permutation(log.users)[: 5 if quick else USERS]
        rows = []
        for k, game in enumerate(world.challenges(users.tolist(), UpdateDefence())):
            items = torch.from_numpy(np.array(game.view.inputs))[None]
            sent = {n: torch.from_numpy(np.array(w)) for n, w in game.view.rounds[0].sent.items()}
            network = [weight[None] for part, weight in sent.items() if part != ITEMS]
            dice = torch.Generator().manual_seed(int(stream(seed, "private", k).integers(2**62)))
            own, other = torch.randn((2, 1, learner.width), generator=dice)
            acted = torch.from_numpy(game.truth.acted.astype(np.float32))[None]
            private, moved, *taught = learner._train(
                [own, items, *network], acted, torch.full_like(acted, 1 / acted.shape[1])
            )
            parts = (
                (private, moved, taught), (other, moved, taught),
                (private, items, network), (own, items, network),
            )  # fmt: skip
            rows.append([_auc(learner.score(*part)[0].numpy(), game.truth.acted) for part in parts])
        aucs.append(np.mean(rows, axis=0))
    print(f"{name}: {len(aucs)} federations of {len(users)} users")
    for part, column in zip(PARTS, np.transpose(aucs), strict=True):
        low, high = intervals.student_mean(column.tolist())
        print(f"{part:28} AUC {column.mean():.3f} ({low:.3f} to {high:.3f})")


def _auc(score: np.ndarray, acted: np.ndarray) -> float:
    metrics, _ = measure(Scores(score.astype(np.float64)), Membership(acted))
    return metrics["auc"].value
