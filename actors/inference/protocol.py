"""What an inference server and its clients agree on: the transport of requests and answers, and its errors.

Requests and answers are the bytes of `common.leaves_codec`.
"""

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

MAX_IN_FLIGHT = 16  # evaluations of one client: it has one for each of its groups of games
# That a server may take over one call; a client gives one that was late longer, up to the second number: a slow server
# would never answer clients that give up and come back at the end of its queue.
SERVER_SECONDS, LONGEST_SERVER_SECONDS = 5.0, 320.0


class Status(IntEnum):
    """What is sent: a number on the wire, of `common/core/serving/request_queue.h`."""

    REQUEST = 0
    ANSWER = 1
    REFUSED = 2  # the reason, as text, why no server can answer this request
    UNAVAILABLE = 3  # the reason, as text, why this server did not answer now


class Body(NamedTuple):
    """A request, or what came back."""

    status: Status
    data: bytes
    written_at: float  # seconds of this host's monotonic clock


class ServerUnavailableError(RuntimeError):
    """This server does not answer now.  Evaluation has no side effects: ask again, here or at another server."""


class ServerClosedError(ServerUnavailableError):
    """The server was closed, or its thread died."""


class QueueFullError(ServerUnavailableError):
    """The server's queue has reached its bound."""


class NoWeightsError(ServerUnavailableError):
    """The server received no weights within the caller's time."""


class AnswerLateError(ServerUnavailableError):
    """The server did not answer within the caller's time."""


class EvaluationFailedError(ServerUnavailableError):
    """The evaluator raised, or answered in the wrong shape; every request of the batch gets this error."""


class Transport(Protocol):
    """Carries requests to a server and answers back; used by one thread.

    It may change to another server at any time, also between two attempts of one request.
    """

    @property
    def max_bytes(self) -> int:
        """The largest request that it carries well just now; leaves that need more are split."""

    @property
    def slots(self) -> int:
        """Requests that may be in flight."""

    def send(self, payload: bytes) -> Any:
        """Sends a request without waiting; a ticket (not None) for `receive`.

        ServerUnavailableError if the request cannot be sent.
        """

    def receive(self, ticket: Any, timeout: float) -> bytes:
        """The answer.  TimeoutError if none came within `timeout` seconds: the ticket stays valid.

        ServerUnavailableError if none will come: the ticket is void then.
        """
