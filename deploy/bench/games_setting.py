"""`actors.games_per_actor=auto`: a number takes its place before anything is built."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TypeVar

from shusaku.actors.batch_size import GamesChoice, measure_games
from shusaku.actors.evaluators.factory import choose_runtime
from shusaku.common.config.schema import Config
from shusaku.common.errors import RunError, UsageError
from shusaku.deploy.cluster.layout import placement_of
from shusaku.deploy.run.calibration import with_scales
from shusaku.deploy.run.chosen_weights import choose_weights
from shusaku.deploy.run.composed_config import replace_settings

T = TypeVar("T")


def settle_games(config: Config) -> tuple[Config, GamesChoice | None]:
    """The configuration with a number of games, measured if none is given, and the measurement."""
    if config.actors.games_per_actor or placement_of(config) == "server":  # there the layout says how many
        return config, None
    choice = run_in_subprocess(_measure, replace_settings(config, checkpoint=config.checkpoint or "random"))
    return replace_settings(config, actors=replace(config.actors, games_per_actor=choice.games)), choice


def run_in_subprocess(function: Callable[[Config], T], config: Config) -> T:
    """In a process of its own, so that its memory is its own and its threads end with it; it ends with this program."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(function, config, sender), daemon=True)
    process.start()
    sender.close()  # so that the child's end is the only one
    try:
        result, error = receiver.recv()
    except EOFError:
        process.join()
        raise RunError(f"the process that measures ended with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if error is not None:
        raise error
    answer: T = result
    return answer


def _send_result(function: Callable[[Config], T], config: Config, sender: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to us as well; our parent decides
    try:
        sender.send((function(config), None))
    except (UsageError, RunError) as error:
        sender.send((None, error))


def _measure(config: Config) -> GamesChoice:
    chosen = choose_weights(config)
    if choose_runtime(config.inference)[0] == "torch":
        import torch

        torch.set_num_threads(1)  # as an actor has
    weights = chosen.weights
    with contextlib.suppress(RunError):  # 8 bits err too much: the next best precision plays, and is measured
        weights = with_scales(config.inference, chosen.game, chosen.network, weights)
    return measure_games(replace_settings(config, network=chosen.network), chosen.game, weights)
