"""What runs at each client."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits.task import accuracy, load, network, train
from divulge.federation.flower import Guardrail  # added for divulge

app = ClientApp(mods=[Guardrail(limit=0.2)])  # changed for divulge


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train the global model on the client's own records."""
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = load(context.node_config["partition-id"], context.node_config["num-partitions"])
    config = message.content["config"]
    loss = train(model, x, y, config["lr"], config["epochs"], config["batch-size"])
    metrics = MetricRecord({"train-loss": loss, "num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Measure the global model on the client's own records."""
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = load(context.node_config["partition-id"], context.node_config["num-partitions"])
    metrics = MetricRecord({"accuracy": accuracy(model, x, y), "num-examples": len(y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
