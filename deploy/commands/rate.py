"""`shusaku rate run.dir=…`: the Elo of a run's versions from all games of its directory, and of those still missing."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from shusaku.actors.arena.arena import Arena
from shusaku.actors.arena.entrants import (
    anchor_player,
    load_evaluators,
    rated_simulations,
    rating_search,
    version_player,
)
from shusaku.actors.arena.players import Player
from shusaku.actors.arena.rating_log import (
    Meeting,
    Moment,
    append_meeting,
    elo_curve,
    played_pairs,
    read_meetings,
    version_name,
    version_of,
)
from shusaku.actors.arena.ratings import Ratings, rate
from shusaku.actors.opponents.process import FAULTS
from shusaku.common.config.rules import ENGINES
from shusaku.common.config.schema import Config, GameConfig, PlayerConfig, RaterConfig
from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_text, mask_tree
from shusaku.common.messages import Weights
from shusaku.deploy.match.players import ENGINES_A_CORE, make_parts
from shusaku.deploy.run.chosen_weights import ChosenWeights, find_weights
from shusaku.deploy.run.composed_config import ComposedConfig, asked_keys, replace_settings
from shusaku.deploy.run.elo_files import write_curve
from shusaku.deploy.run.saved_config import holds_run, read_config
from shusaku.deploy.run.stop_signals import StopSignals
from shusaku.deploy.run.strength_table import baseline_name
from shusaku.deploy.run.text_table import text_table
from shusaku.learner.checkpoints import published_weights, whole_checkpoints


def run(config: Config, as_json: bool) -> dict[str, Any]:
    """Prints the table, writes elo.json and elo.png, returns the table as JSON.

    UsageError if there is no run, or no game of the first anchor.
    """
    directory = Path(config.run.dir)
    if not holds_run(directory):
        raise UsageError(f"run.dir={directory}: holds no run; name the directory of one")
    saved = read_config(directory)
    config = _as_rated(config, saved)
    simulations = rated_simulations(int(saved["search"].get("simulations", 1)), config.rater)
    if config.rater.fill:
        with StopSignals() as signals, ExitStack() as stack:
            filler = _Filler(config, directory, signals, stack)
            filler.play()
        simulations = filler.search.simulations
    meetings, anchor = read_meetings(directory, simulations), config.rater.anchors[0]
    if not any(anchor in (meeting.first, meeting.second) for meeting in meetings):
        raise UsageError(f"run.dir={directory}: {anchor}, which has 0 Elo, has played no game; rater.fill=20 plays "
                         "some with the versions that checkpoints keep")
    ratings = rate(played_pairs(meetings), anchor)
    curve = elo_curve(ratings, meetings)
    if curve.points:
        write_curve(directory, curve, directory.resolve().name)
    print(_table(ratings, meetings, directory))
    return {"run_dir": str(directory), "anchor": anchor,
            "players": [asdict(player) for player in ratings.players],
            "unconnected": [list(group) for group in ratings.unconnected],
            "games": sum(len(pair.points) for pair in played_pairs(meetings))}


def _as_rated(config: Config, saved: Mapping[str, Any]) -> Config:
    """With the settings of the run's rater, but for those that this command line names: other ones, other players."""
    if not isinstance(config, ComposedConfig):
        return config
    known = {field.name for field in fields(RaterConfig)} - {"fill"}
    kept = {name: value for name, value in saved.get("rater", {}).items()
            if name in known and f"rater.{name}" not in asked_keys(config)}
    return replace_settings(config, rater=replace(config.rater, **kept))


class _Filler:
    """Plays what is missing to `rater.fill` games: each kept version against the one before and against the anchors.

    An engine, second.engine=gtp|uci|usi, meets the newest version.
    """

    def __init__(self, config: Config, directory: Path, signals: StopSignals, stack: ExitStack) -> None:
        self._config, self._directory, self._signals, self._stack = config, directory, signals, stack
        self._chosen: ChosenWeights = find_weights(config, "run.dir", config.run.dir)
        self.search = rating_search(self._chosen.search, config.rater)  # of each version
        self._threads = config.actors.count or len(os.sched_getaffinity(0))
        self._weights: dict[str, Weights] = {}  # of the kept versions, by name

    def play(self) -> None:
        """All missing games, written down for two players at a time; a signal leaves the rest for the next time."""
        meetings, versions = read_meetings(self._directory, self.search.simulations), self._kept()
        self._weights = {version_name(weights.version): weights for weights, _ in versions}
        for weights, moment, opponent in self._missing(meetings, versions):
            if self._signals.should_stop():
                break
            self._meet(weights, moment, opponent, self._games(meetings, version_name(weights.version), opponent))
        self._signals.raise_received()

    def _missing(
        self, meetings: list[Meeting], versions: list[tuple[Weights, Moment]]
    ) -> Iterator[tuple[Weights, Moment, str]]:
        """Version, its moment, and an opponent that it owes games."""
        for number, (weights, moment) in enumerate(versions):
            opponents = [*self._config.rater.anchors]
            if number:
                opponents.insert(0, version_name(versions[number - 1][0].version))
            if number == len(versions) - 1 and self._config.second.engine in ENGINES:
                opponents.append(self._engine_name())
            for opponent in opponents:
                if self._games(meetings, version_name(weights.version), opponent) < self._config.rater.fill:
                    yield weights, moment, opponent

    def _kept(self) -> list[tuple[Weights, Moment]]:
        """The versions that checkpoints keep, oldest first."""
        kept = {}
        for found in whole_checkpoints(self._directory / "checkpoints"):
            weights = published_weights(found.checkpoint, self._chosen.network, self._chosen.game)
            driver = found.checkpoint.facts.get("driver", {})
            kept[weights.version] = weights, Moment(weights.step, float(driver.get("progress", {}).get("seconds", 0.0)))
        return [kept[version] for version in sorted(kept)]

    def _games(self, meetings: list[Meeting], first: str, second: str) -> int:
        return sum(meeting.repeated + sum(map(len, meeting.points)) for meeting in meetings
                   if {meeting.first, meeting.second} == {first, second})

    def _meet(self, weights: Weights, moment: Moment, opponent: str, played: int) -> None:
        games = self._config.rater.fill - played
        games += games % 2
        print(f"{version_name(weights.version)} against {opponent}: {games} games", file=sys.stderr)
        seed = (weights.version << 20) + played  # openings that the games before did not begin with
        # An engine has a process for each game.
        at_once = min(games, ENGINES_A_CORE * self._threads) if opponent == self._engine_name() else games
        with ExitStack() as stack:
            first = self._version(weights, games, seed)
            stack.callback(first.close)
            second = self._opponent(opponent, games, seed + 1)
            stack.callback(second.close)
            result = Arena(self._chosen.game, (first, second), games=games, seed=seed, games_at_once=at_once,
                           opening_plies=self._config.rater.opening_plies, openings_key="rater.opening_plies",
                           should_stop=self._signals.should_stop).play()
        faulty = {game.number // 2: game.message for game in result.games if game.ended_by in FAULTS}
        if faulty:
            print(f"{opponent}: faults in {len(faulty)} pairs of games, which do not count; the first: "
                  f"{next(iter(faulty.values()))}", file=sys.stderr)
        pairs = {number: pair for number, pair in result.whole_pairs().items() if number not in faulty}
        points = tuple(map(tuple, result.new_pairs(pairs).values()))
        if points:
            repeated = 2 * (len(pairs) - len(points))
            append_meeting(self._directory,
                           Meeting(version_name(weights.version), opponent, points, moment, repeated),
                           self.search.simulations)

    def _version(self, weights: Weights, games: int, seed: int) -> Player:
        config = copy(self._config)
        config.network, config.search = self._chosen.network, self._chosen.search
        evaluators = load_evaluators(config, self._chosen.game, weights, games, self._threads)
        return version_player(version_name(weights.version), self._chosen.game, self.search, evaluators,
                              games_at_once=games, seed=seed, should_stop=self._signals.should_stop)

    def _opponent(self, name: str, games: int, seed: int) -> Player:
        if version_of(name):
            return self._version(self._weights[name], games, seed)
        if name in self._config.rater.anchors:
            return anchor_player(name, self._chosen.game, games_at_once=games, threads=self._threads, seed=seed,
                                 should_stop=self._signals.should_stop)
        match = copy(self._config)
        match.first = PlayerConfig(engine="random")
        match.game = GameConfig(self._chosen.game.name, dict(self._chosen.game.params))
        return make_parts(match, self._signals.should_stop).seats[1].player

    def _engine_name(self) -> str:
        """Engines of other settings are other players."""
        engine = self._config.second
        limit = next((f" {name}={value}" for name in ("nodes", "depth", "movetime_ms")
                      if (value := getattr(engine, name))), "")
        options = "".join(f" {name}={value}" for name, value in sorted(mask_tree(dict(engine.options)).items()))
        return f"{mask_text(engine.command)}{limit}{options}"


def _table(ratings: Ratings, meetings: list[Meeting], directory: Path) -> str:
    moments = {meeting.first: meeting.moment for meeting in meetings if meeting.moment}
    rows = []
    for player in ratings.players:
        moment = moments.get(player.name)
        interval = "anchor" if player.name == ratings.anchor else f"{player.low:+.0f} to {player.high:+.0f}"
        rows.append([baseline_name(player.name), f"{player.elo:+.0f}", interval, f"{player.games:,}",
                     f"{player.score:.1%}", f"{moment.step:,}" if moment else "",
                     f"{moment.seconds / 60:.1f}" if moment else ""])
    lines = text_table([["player", "Elo", "95 %", "games", "score", "step", "minutes"]], rows)
    if ratings.unconnected:
        groups = "; ".join(", ".join(group) for group in ratings.unconnected)
        lines += ["", f"no rating, for no games connect them with {ratings.anchor}: {groups}"]
    lines += ["", f"from the points of all games, a draw counts half; {directory}/elo.png shows the versions over time"]
    return "\n".join(lines)
