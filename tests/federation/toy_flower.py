"""A Flower app small enough for tests."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from .toy import CLASSES as CLASSES
from .toy import CONFIG as CONFIG
from .toy import Arrays as Arrays
from .toy import data as data
from .toy import exact_answer
from .toy import trained as trained
from .toy import weights as weights

if TYPE_CHECKING:
    from divulge.federation.flower import Guardrail


def record(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(value) for name, value in arrays.items()})


def arrays(content: RecordDict) -> Arrays:
    (only,) = content.array_records.values()
    return {name: value.numpy() for name, value in only.items()}


def fit(message: Message, context: Context) -> Message:
    x, y = data(int(context.node_config["partition-id"]))
    (config,) = message.content.config_records.values()
    how = (float(str(config["lr"])), int(str(config["epochs"])), int(str(config["batch-size"])))
    after = trained(arrays(message.content), x, y, *how)
    rounds = MetricRecord({"count": 1})
    if "rounds" in context.state.metric_records:
        rounds = MetricRecord({"count": int(str(context.state["rounds"]["count"])) + 1})
    context.state["rounds"] = rounds
    metrics = MetricRecord(
        {"num-examples": len(y), "seen": rounds["count"], "bias": float(after["fc.bias"][0])}
    )
    return Message(RecordDict({"arrays": record(after), "metrics": metrics}), reply_to=message)


def exact_fit(message: Message, context: Context) -> Message:
    after, count = exact_answer(int(context.node_config["partition-id"]), arrays(message.content))
    metrics = MetricRecord({"num-examples": count, "bias": float(after["fc.bias"][0])})
    return Message(RecordDict({"arrays": record(after), "metrics": metrics}), reply_to=message)


def evaluate(message: Message, context: Context) -> Message:
    x, y = data(int(context.node_config["partition-id"]))
    now = arrays(message.content)
    right = (x @ now["fc.weight"].T + now["fc.bias"]).argmax(axis=1) == y
    metrics = MetricRecord({"num-examples": len(y), "accuracy": float(right.mean())})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def client_app(
    guard: "Guardrail | None" = None, train: Callable[[Message, Context], Message] = fit
) -> ClientApp:
    app = ClientApp(mods=[] if guard is None else [guard])
    app.train()(train)
    app.evaluate()(evaluate)
    return app


def server_app(
    strategy: Strategy | None = None, rounds: int = 2, into: list[Result] | None = None
) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        chosen = FedAvg() if strategy is None else strategy
        result = chosen.start(
            grid, record(weights()), num_rounds=rounds, train_config=ConfigRecord(dict(CONFIG))
        )
        if into is not None:
            into.append(result)

    return app


class Keeping(FedAvg):
    """Takes the first answer as it is for the new weights: what came in goes on, whatever it is."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        del server_round
        for one in replies:
            if one.has_content():
                (arrays,) = one.content.array_records.values()
                return arrays, one.content.metric_records["metrics"]
        return None, None


def reply(content: RecordDict, message: Message) -> Message:
    """An answer with these records."""
    return Message(content, reply_to=message)


def same(one: ArrayRecord, other: ArrayRecord) -> bool:
    """Bit for bit."""
    return list(one) == list(other) and all(
        (one[name].dtype, one[name].shape, one[name].data)
        == (other[name].dtype, other[name].shape, other[name].data)
        for name in one
    )
