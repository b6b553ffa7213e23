"""Actors, inference servers and the evaluator as Ray actors: thin shells around the plain classes.

Every class is a `common.remote_worker.RemoteWorker`: `run` takes one thread until the end, so that its caller sees
every end, also an exception; the other methods are short.
"""

import math
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray

from shusaku.actors.actor_loop import ActorLoop
from shusaku.actors.arena.rater import Rater
from shusaku.actors.arena.rating_log import EloCurve
from shusaku.actors.arena.strength import StoppedError, Strength, measure
from shusaku.actors.arena.strength_sets import strength_set
from shusaku.actors.evaluators.factory import evaluator_maker, make_evaluator
from shusaku.actors.inference.client import EvaluationStoppedError, RemoteEvaluator
from shusaku.actors.inference.protocol import MAX_IN_FLIGHT, SERVER_SECONDS
from shusaku.actors.inference.server import LEAST_WAITING, InferenceServer, Spare
from shusaku.actors.inference.shm_server import SharedMemoryServer
from shusaku.actors.inference.stats import ServerStats
from shusaku.actors.inference.tcp_server import TcpServer
from shusaku.actors.inference.transport import Listeners, ServerTransport
from shusaku.actors.open_games import OpenGamePlayer, OpenGames
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay, group_games
from shusaku.actors.policy_games.paired_games import make_pair
from shusaku.actors.policy_games.value_games import make_value_games
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import Config, InferenceConfig
from shusaku.common.cpu_share import CpuShare
from shusaku.common.external.configured_game import decided_game
from shusaku.common.hardware import lower_priority, nice_of_share
from shusaku.common.messages import Weights
from shusaku.common.remote_worker import RemoteWorker
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.common.stage_timer import StageTimer
from shusaku.common.tls.authority import Certificate
from shusaku.replay.stream.append import Appender
from shusaku.replay.stream.open_games import take_open_games
from shusaku.replay.stream.writer import AsyncWriter
from shusaku.replay.validation import Validation

SPARE_SIZES = (16, 64, 256)  # of an inference server's batches on CPUs, each half a second to compile
FLUSH_SECONDS = 5.0  # at the end, for games that are not in Redis yet
BUILD_SECONDS = 300.0  # for `run` to build the objects that the other methods use: a GPU compiles and captures graphs


@dataclass(frozen=True)
class ActorPlan:
    """Everything that a self-play actor is made of; small, because it is sent with every start."""

    config: Config
    config_hash: str
    actor: int
    epoch: int
    incarnation: int
    seed: int
    games: int
    url: str = field(repr=False)  # of the replay, for the actor's node
    run_id: str
    with_server: bool  # evaluates on inference servers, not by itself
    resign_value: float = NEVER_RESIGN  # threshold to begin with
    actors: int = 1  # of the run as it began
    policies: tuple[Any, ...] = ()  # references to the weights of the two policies of games for a value network


class _Shell(RemoteWorker):
    """`run` builds the plain object, so that it raises what goes wrong there; the other methods wait for the object."""

    def __init__(self) -> None:
        super().__init__()
        self._built = threading.Event()

    def _wait_until_built(self) -> None:
        if not self._built.wait(BUILD_SECONDS):
            raise TimeoutError(f"{self!r} was not ready after {BUILD_SECONDS:.0f} s")


class SelfPlayActor(_Shell):
    """Plays until it is stopped."""

    def __init__(self, plan: ActorPlan) -> None:
        super().__init__()
        self._plan = plan
        self._writer: AsyncWriter | None = None
        self._opponents: list[Any] = []  # references to weights

    def run(self) -> str:
        """Plays, and returns why it stopped."""
        plan, config = self._plan, self._plan.config
        lower_priority(nice_of_share(config.cluster.nice, config.actors.cpus))
        game = decided_game(config.game)
        identity = ActorIdentity(plan.actor, plan.epoch, plan.incarnation)
        writer = self._writer = AsyncWriter(
            Appender(plan.url, plan.run_id, actor=plan.actor, epoch=plan.epoch, incarnation=plan.incarnation),
            actors=plan.actors)
        self.activity.begin("building the evaluator")
        try:
            self._loop = self._build(game, identity, writer)
            self._built.set()
            if self._stopping.is_set():
                return "the actor was stopped"
            return self._loop.run()
        except EvaluationStoppedError:
            self._loop.save_open_games()
            return "the actor was stopped while it waited for an inference server"
        finally:
            writer.close(FLUSH_SECONDS)

    def _build(self, game: Game, identity: ActorIdentity, writer: AsyncWriter) -> ActorLoop:
        plan, config = self._plan, self._plan.config
        settings: dict[str, Any] = {
            "games": plan.games, "seed": plan.seed, "identity": identity, "config_hash": plan.config_hash,
            "resign_value": plan.resign_value,
        }
        player: SelfPlay | PipelinedSelfPlay
        if plan.policies:
            policies = ray.get(list(plan.policies))
            del settings["games"], settings["resign_value"]
            games = make_value_games(config, game, policies, **settings)
            loop = ActorLoop(games, writer, lambda weights: None, epoch=plan.epoch, activity=self.activity,
                             runtime=lambda: games.description, timer=games.timer,
                             open_games=self._open_games(games, game, writer))
            loop.set_ready()
            return loop
        timer = StageTimer()
        if plan.with_server:
            self._transport = ServerTransport(plan.actor, game, group_games(plan.games))
            remote = RemoteEvaluator(self._transport, plan.actor, game, should_stop=self._stopping.is_set,
                                     on_wait=lambda: self.activity.wait("waiting for an inference server", "inference"),
                                     timeout=math.inf)  # the transport ends each wait, later for a slow server
            player = PipelinedSelfPlay(game, config.search, config.self_play, remote, timer=timer, **settings)
            return ActorLoop(player, writer, lambda weights: None, epoch=plan.epoch, activity=self.activity,
                             more_metrics=self._transport.metrics, timer=timer,
                             open_games=self._open_games(player, game, writer))
        if config.reinforce.enabled:
            del settings["games"], settings["resign_value"]
            pair = make_pair(config, game, self._draw_opponent, **settings)
            return ActorLoop(pair, writer, pair.load, epoch=plan.epoch, activity=self.activity,
                             runtime=lambda: pair.description, timer=pair.timer)
        evaluator = make_evaluator(game, config.inference, config.network, plan.games, timer)
        player = SelfPlay(game, config.search, config.self_play, evaluator, timer=timer, **settings)
        return ActorLoop(player, writer, evaluator.load, epoch=plan.epoch, activity=self.activity,
                         runtime=lambda: evaluator.description, timer=timer,
                         open_games=self._open_games(player, game, writer))

    def _open_games(self, player: OpenGamePlayer, game: Game, writer: AsyncWriter) -> OpenGames | None:
        plan, minutes = self._plan, self._plan.config.actors.snapshot_minutes
        if minutes == 0:
            return None
        take = partial(take_open_games, plan.url, plan.run_id, (plan.epoch, plan.actor, plan.incarnation))
        return OpenGames(player, Validation(game, plan.config_hash), seconds=60 * minutes, take=take,
                         put=writer.put_open_games)

    def _draw_opponent(self, random: np.random.Generator) -> Weights | None:
        """From the pool as it was when the newest weights came."""
        opponents = self._opponents
        return ray.get(opponents[int(random.integers(len(opponents)))]) if opponents else None

    def load(self, weights: list[Any]) -> None:
        """Takes newer weights, as a list of a reference: Ray would fetch a bare one before the call.

        With policy gradient those of the pool of opponents follow.
        """
        self._wait_until_built()
        self._opponents = weights[1:]
        self._loop.offer(ray.get(weights[0]))

    def attach(self, servers: list[Any]) -> None:
        """Takes the handles of the inference servers that are ready now."""
        self._wait_until_built()
        self._transport.attach(servers)
        self._loop.set_ready()

    def troubles(self) -> Sequence[str]:
        """That its finished games cannot be sent, or its open ones not be saved."""
        if self._writer is None:
            return ()
        troubles = (self._writer.trouble(), self._writer.stats().save_trouble)
        return tuple(trouble for trouble in troubles if trouble)

    def on_stop(self) -> None:
        """The loop ends after the current searches."""
        if self._built.is_set():
            self._loop.stop()

    def __repr__(self) -> str:
        return f"SelfPlay {self._plan.actor}.{self._plan.incarnation}"


@dataclass(frozen=True)
class ServerReport:
    """State of an inference server, for the driver."""

    version: int
    stats: ServerStats
    runtime: str  # which runtime evaluates, and why it was chosen


class InferenceServerActor(_Shell):
    """Evaluates the leaves of all actors with one network."""

    def __init__(self, config: Config, index: int, sizes: list[int], certificate: Certificate | None = None,
                 actors: int = 1) -> None:
        """`certificate`: of its TCP listener; None: that does not encrypt; `actors`: of the run as it began."""
        super().__init__()
        self._max_waiting = max(LEAST_WAITING, MAX_IN_FLIGHT * actors)  # all of them may ask one server
        self._config, self._index, self._sizes, self._certificate = config, index, sizes, certificate

    def run(self) -> str:
        """Serves until it is stopped, and returns why it stopped."""
        config = self._config
        game = decided_game(config.game)

        make = evaluator_maker(game, config.inference, config.network)
        spare = None
        if config.inference.is_on_gpu:
            spare = Spare(evaluator_maker(game, inference_on_cpu(config.inference), config.network), SPARE_SIZES)
        self._server = InferenceServer(game, make, sizes=self._sizes, deadline_ms=config.inference.deadline_ms,
                                       max_waiting=self._max_waiting, activity=self.activity, spare=spare)
        self._open_listeners()
        self._built.set()
        self.activity.set_ready()
        while not self._stopping.wait(0.5):
            if not self._server.is_alive:
                raise RuntimeError("the thread of the inference server ended; see its log")
            if not all(listener.is_alive for listener in self._open):
                raise RuntimeError("a thread of the server's listeners ended; see its log")
        for listener in self._open:
            listener.close()
        self._server.close()
        return "the server was stopped"

    def troubles(self) -> Sequence[str]:
        """A device that was left."""
        trouble = self._server.trouble if self._built.is_set() else ""
        return [trouble] if trouble else []

    def _open_listeners(self) -> None:
        """Those of `inference.listen` that this system has; clients that reach none of them call through Ray."""
        self._open: list[SharedMemoryServer | TcpServer] = []
        wanted, memory, tcp = self._config.inference.listen, "", None
        if "memory" in wanted:
            with suppress(OSError, RuntimeError):
                shared = SharedMemoryServer(self._server)
                memory = shared.address
                self._open.append(shared)
        if "tcp" in wanted:
            with suppress(OSError, RuntimeError):
                host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
                listener = TcpServer(self._server, host, certificate=self._certificate)
                tcp = listener.address
                self._open.append(listener)
        self._listeners = Listeners(ray.get_runtime_context().get_node_id(), memory, tcp)

    def listeners(self) -> Listeners:
        """Where it takes requests."""
        self._wait_until_built()
        return self._listeners

    def infer(self, client: int, payload: bytes, seconds: float = SERVER_SECONDS) -> bytes:
        """Evaluates encoded leaves of a client within so many seconds; returns an encoded answer."""
        self._wait_until_built()
        return self._server.infer(client, payload, seconds)

    def load(self, weights: list[Any]) -> None:
        """Takes newer weights, as a list of one reference."""
        self._wait_until_built()
        self._server.load(ray.get(weights[0]))

    def report(self) -> ServerReport:
        """State of the server."""
        self._wait_until_built()
        return ServerReport(self._server.version, self._server.stats(), self._server.description)

    def __repr__(self) -> str:
        return f"InferenceServer {self._index}"


class EvaluatorActor(_Shell):
    """Measures strength and rates versions, at the lowest priority."""

    def __init__(self, config: Config, nice: int, threads: int, directory: str) -> None:
        """`directory`: of the run, on this node."""
        super().__init__()
        self._config, self._nice, self._threads, self._directory = config, nice, threads, directory
        self._measuring = threading.Lock()  # the evaluators hold one network, so one measurement uses them at a time
        self._rater: Rater | None = None

    def run(self) -> str:
        """Builds the evaluators, waits until it is stopped, and returns why."""
        lower_priority(self._nice)
        config = self._config
        game = decided_game(config.game)
        self._positions = strength_set(game) if config.strength.enabled else None
        self.activity.begin("building the evaluators")
        self._evaluators = [
            make_evaluator(game, inference_on_cpu(config.inference), config.network, config.actors.games)
            for _ in range(self._threads if self._positions else 0)
        ]
        self._built.set()
        self.activity.set_ready()
        # It measures at the lowest priority, so beside other work it may get next to no time for long.
        self.activity.wait("measuring, or waiting for weights to measure")
        self._stopping.wait()
        return "the evaluator was stopped"

    def measure(self, weights: list[Any], simulations: list[int], positions: int) -> Strength | None:
        """The share of optimal moves of these weights on so many positions, 0: all; None if it was stopped."""
        self._wait_until_built()
        lower_priority(self._nice)  # of the threads that Ray has made since
        assert self._positions is not None, f"no positions with known results for {self._config.game.name}"
        published: Weights = ray.get(weights[0])
        some = self._positions.subset(positions) if positions else self._positions
        with self._measuring:  # the one before may still be under way when the final one is asked for
            for evaluator in self._evaluators:
                evaluator.load(published)
            try:
                return measure(some, self._evaluators, self._config.search, simulations,
                               should_stop=self._stopping.is_set)
            except StoppedError:
                return None

    def rate(self, weights: list[Any], seconds: float) -> tuple[EloCurve | None, str]:
        """Rates these weights, published at this training time, by games on one thread.

        It rests so that the process keeps its share of the time.  Returns the ratings, None if it was stopped, and what
        is wrong with the disk.
        """
        self._wait_until_built()
        lower_priority(self._nice)
        if self._rater is None:
            config = replace(self._config, inference=inference_on_cpu(self._config.inference))
            self._rater = Rater(config, decided_game(config.game), Path(self._directory), threads=1,
                                should_stop=self._stopping.is_set)
        share = CpuShare(self._config.rater.share * len(os.sched_getaffinity(0)), self._stopping.wait,
                         used=time.process_time)  # with the threads that compile the networks
        curve = self._rater.rate(ray.get(weights[0]), seconds, share.rest)
        return curve, self._rater.trouble

    def __repr__(self) -> str:
        return "Evaluator"


def inference_on_cpu(inference: InferenceConfig) -> InferenceConfig:
    """The same settings without the GPU, which belongs to the servers."""
    if not inference.is_on_gpu:
        return inference
    return InferenceConfig(runtime="auto", precision="auto", device="cpu", placement="actor")
