"""Run Flower apps in one process: no network, no serialisation, no waiting."""

import contextlib
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from divulge.errors import SpecError
from divulge.federation.flower import records

log = logging.getLogger(__name__)
RUN_ID = 1
FIRST_NODE = SUPERLINK_NODE_ID + 1


def run_in_process(
    server_app: ServerApp,
    client_app: ClientApp,
    *,
    clients: int = 10,
    run_config: Mapping[str, str | int | float | bool] | None = None,
) -> Context:
    """Run a Flower app here and now, its clients one after the other.

    Args:
        server_app: server app of the message API, with a ``main``.
        client_app: client app of all clients, which tell themselves apart by ``partition-id`` in
            ``context.node_config``; the node of partition 0 is number 2.
        clients: number of clients.
        run_config: settings that ``flwr run`` would read from ``pyproject.toml``.

    Returns:
        The server's context, with the state that its app left there.

    Raises:
        SpecError: there is no client. What the server app raises is passed on; what a client
            raises reaches the server as an error reply.
    """
    config = dict(run_config or {})
    grid = InProcessGrid(client_app, clients, config)
    context = Context(RUN_ID, SUPERLINK_NODE_ID, {}, RecordDict(), config)
    with _task_identity():
        server_app(grid, context)
    return context


@contextlib.contextmanager
def _task_identity() -> Iterator[None]:
    """Set the identity that Flower stamps messages with, and restore it afterwards."""
    names = ("_run_id", "_node_id", "_task_id")
    before = {name: getattr(TaskIdentity, name) for name in names}
    for name, value in zip(names, (RUN_ID, SUPERLINK_NODE_ID, 1), strict=True):
        setattr(TaskIdentity, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(TaskIdentity, name, value)


class InProcessGrid(Grid):
    """Passes each message to the client app, and keeps the reply until it is pulled.

    Both sides get records of their own, as over a network, but arrays are not copied: Flower never
    changes the bytes in them. Time-outs do not apply, since every reply is there at once.

    Args:
        client_app: client app that each client runs.
        clients: number of clients.
        run_config: settings of the run.

    Raises:
        SpecError: there is no client.
    """

    def __init__(
        self,
        client_app: ClientApp,
        clients: int,
        run_config: Mapping[str, str | int | float | bool],
    ) -> None:
        if clients < 1:
            raise SpecError(f"expected one client or more, got {clients}: choose how many")
        self._client_app = client_app
        self._contexts = {
            FIRST_NODE + partition: Context(
                run_id=RUN_ID,
                node_id=FIRST_NODE + partition,
                node_config={"partition-id": partition, "num-partitions": clients},
                state=RecordDict(),
                run_config=dict(run_config),
            )
            for partition in range(clients)
        }
        self._run = Run.create_empty(RUN_ID)
        self._numbers = itertools.count(1)
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """Set the run whose number messages carry."""
        self._run = run

    @property
    def run(self) -> Run:
        """Run whose number messages carry."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | int | None = None,
    ) -> Message:
        """Create a message, as ``Message(...)`` does."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Node numbers of the clients, in the order of their partitions."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Run the clients on these messages; their replies can then be pulled."""
        pushed = [(self._next_id(message), message) for message in messages]
        for number, message in pushed:
            self._replies[number] = self._reply(message)
        return [number for number, _ in pushed]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies to these messages, each given once."""
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | int | None = None
    ) -> Iterable[Message]:
        """Run the clients, and return their replies in the order of the messages."""
        del timeout
        return self.pull_messages(self.push_messages(messages))

    def _next_id(self, message: Message) -> str:
        number = f"message-{next(self._numbers)}"
        message.metadata.__dict__["_message_id"] = number  # as Flower's own grids set it
        return number

    def _reply(self, message: Message) -> Message:
        """Reply of the client, or an error reply where it failed."""
        node = message.metadata.dst_node_id
        earlier = self._contexts.get(node)
        if earlier is None:
            return Message(
                Error(ErrorCode.NODE_UNAVAILABLE, f"no node has the number {node}"),
                reply_to=message,
            )
        context = _copy_context(earlier)
        try:
            reply = self._client_app(_copy_message(message), context)
            if reply.has_content():
                reply.content = records.copy_records(reply.content)
        except Exception as error:
            log.exception(
                "client %d (partition %s) failed", node, earlier.node_config["partition-id"]
            )
            # not its text, which may quote records: servers keep and show what they are told
            reason = f"{type(error).__name__} in the client app: its log has the traceback"
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
        else:
            self._contexts[node] = context  # a client that fails keeps the state it had
        self._next_id(reply)
        return reply


def _copy_context(context: Context) -> Context:
    return Context(
        run_id=context.run_id,
        node_id=context.node_id,
        node_config=dict(context.node_config),
        state=records.copy_records(context.state),
        run_config=dict(context.run_config),
    )


def _copy_message(message: Message) -> Message:
    """Copy of a message, as another process would get it."""
    about = message.metadata
    delivered = Message(
        records.copy_records(message.content),
        about.dst_node_id,
        about.message_type,
        ttl=about.ttl,
        group_id=about.group_id,
    )
    delivered.metadata.__dict__.update(about.__dict__)
    return delivered
