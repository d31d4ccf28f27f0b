"""What runs at the server."""

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import network
from divulge.federation.flower import Recorder  # added for divulge

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    settings = context.run_config
    config = ConfigRecord({name: settings[name] for name in ("lr", "epochs", "batch-size")})
    strategy = FedAvg()
    strategy = Recorder(strategy, settings["transcript"])  # added for divulge
    strategy.start(
        grid,
        ArrayRecord(network().state_dict()),
        num_rounds=settings["rounds"],
        timeout=settings["timeout"],
        train_config=config,
    )
