"""Games of the policy that learns against earlier versions of it, for policy gradient (Silver et al. 2016, Methods).

As in the paper a batch of parallel games has one opponent, drawn evenly from a pool; so two networks evaluate all
positions of a ply in two batches.  The policy that learns moves first in every second game.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np

from shusaku.actors.evaluators.evaluator import Evaluator
from shusaku.actors.evaluators.factory import make_bucketed_evaluator
from shusaku.actors.self_play import ActorIdentity, check_rules, play_rows
from shusaku.common._core import Game, Position, SearchBatch, SearchResult
from shusaku.common.config.schema import Config
from shusaku.common.config.search import SearchConfig
from shusaku.common.messages import EndedBy, GameId, GameRecord, OpenGame, RowKind, Weights
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.common.search import search_options, step
from shusaku.common.stage_timer import StageTimer

Draw = Callable[[np.random.Generator], Weights | None]
WHOLE = 65_535  # the share of the only action of a policy
LEARNS, OPPOSES = 0, 1  # indices of the two players
_COUNTED = ("simulations", "searches", "evaluations", "cache_hits", "terminals")  # by `SearchBatch.counters`


class _OpenGame:
    """A running game."""

    def __init__(self, position: Position, learner: int) -> None:
        """`learner`: the side of the policy that learns, 0 moves first."""
        self.position, self.learner = position, learner
        self.actions: list[int] = []
        self.sides: list[int] = []  # that moved
        self.values: list[float] = []  # of the evaluation before the move, for the player to move

    @property
    def turn(self) -> int:
        """LEARNS or OPPOSES, whose move it is."""
        return LEARNS if self.position.to_play == self.learner else OPPOSES

    def play(self, result: SearchResult) -> None:
        """Plays the move that the search has drawn."""
        self.actions.append(result.action)
        self.sides.append(self.position.to_play)
        self.values.append(result.raw_value)
        self.position.play(result.action)


class PairedGames:
    """Plays rounds: `games` parallel games to their ends, all by the weights that were the newest at their beginning.

    A row of the policy that learns has weight 1, and its policy is the move that was drawn; the opponent's rows have
    weight 0 and no policy.  `versions` says who moved.  Which moves are drawn depends on (seed, number of the round,
    number of the game, ply) and on the policies alone, so a round that was stopped is played again from its beginning
    with the same games.  All games of a round are handed over at its end.
    """

    def __init__(
        self, game: Game, search: SearchConfig, evaluators: Sequence[Evaluator], draw: Draw, *, games: int, seed: int,
        identity: ActorIdentity, config_hash: str = "", timer: StageTimer | None = None,
    ) -> None:
        """`search`: policy_only; `evaluators`: one of each player, LEARNS and OPPOSES, of this player alone.

        `draw`: an opponent from the pool; None: there is none yet, and the policy plays against itself.
        `timer`: shared with the evaluators.
        """
        assert games % 2 == 0, "both colours must be played equally often"
        self.timer = timer or StageTimer()
        self.sequence = 0  # of the next finished game
        self.size = games
        self._game, self._evaluators, self._draw, self._seed = game, evaluators, draw, seed
        self._identity, self._config_hash = identity, config_hash
        options = search_options(search, symmetries=False)
        self._searches = [SearchBatch(game, options, games, seed) for _ in evaluators]
        self._newest: Weights | None = None
        self._loaded = [-1, -1]  # versions
        self._round = 0
        self._open: list[_OpenGame] = []
        self._counts: Counter[str] = Counter()

    @property
    def resign_value(self) -> float:
        """These games are played to their ends."""
        return NEVER_RESIGN

    @property
    def evaluate(self) -> Evaluator:
        """The evaluator of the policy that learns."""
        return self._evaluators[LEARNS]

    @property
    def description(self) -> str:
        """What evaluates, as text for the user."""
        return self.evaluate.description

    def load(self, weights: Weights) -> None:
        """Plays with these weights from the next round on."""
        self._newest = weights
        if not self._open:
            self._load(LEARNS, weights)

    def step(self) -> list[GameRecord]:
        """One move in every open game; all games of the round if it has ended, else none."""
        if not self._open:
            self._begin_round()
        for player in (LEARNS, OPPOSES):
            self._move(player, [(number, game) for number, game in enumerate(self._open) if game.turn == player])
        if any(not game.position.is_terminal for game in self._open):
            return []
        records = [self._record(game) for game in self._open]
        self._open = []
        self._round += 1
        self._counts["games"] += len(records)
        self.timer.charge("record")
        return records

    def play(self, rows: int, should_stop: Callable[[], bool] = lambda: False) -> list[GameRecord]:
        """Plays rounds until their games have at least `rows` rows, or until `should_stop()`; the games that ended."""
        self.timer.charge("wait")  # while the caller asked for no step
        return play_rows(self.step, rows, should_stop)

    def counters(self) -> dict[str, int]:
        """Totals since this object was made: simulations, searches, evaluations, cache_hits, terminals, games, ..."""
        totals = Counter(self._counts)
        for searches in self._searches:
            counts = searches.counters()
            totals.update({name: counts[name] for name in _COUNTED})
        return dict(totals)

    def snapshot(self) -> bytes:
        """The number of the running round, which a successor plays from its beginning."""
        packed: bytes = msgpack.packb({"rules": self._rules(), "sequence": self.sequence, "round": self._round,
                                        "seed": self._seed})
        return packed

    def restore(self, snapshot: bytes) -> None:
        """Continues from a snapshot, with its seed.  ValueError unless it is of the same game and number of games."""
        try:
            state = msgpack.unpackb(snapshot)
            rules, sequence, number = list(state["rules"]), int(state["sequence"]), int(state["round"])
            seed = int(state["seed"] if "seed" in state else rules.pop())  # an older program had it among the rules
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"the number of the round cannot be read: {error}") from None
        check_rules(rules, self._rules(), "rounds")
        self.sequence, self._round, self._seed, self._open = sequence, number, seed, []

    def begin_anew(self, sequence: int) -> None:
        """Numbers the games from `sequence` and draws otherwise, because the number of the round was lost."""
        self.sequence, self._round, self._open = sequence, 0, []
        self._seed = (self._seed + sequence + 1) % 2**64

    def open_games(self) -> list[OpenGame]:
        """None are saved: a round takes seconds."""
        return []

    def resume(self, index: int, game: OpenGame) -> None:
        """Refuses the game."""
        raise ValueError("games of policy gradient are played from their beginning")

    def _begin_round(self) -> None:
        newest, random = self._newest, np.random.default_rng([self._seed, self._round])
        assert newest is not None, "a round was to begin before there were weights"
        opponent = self._draw(random) or newest
        self._load(LEARNS, newest)
        self._load(OPPOSES, opponent)
        self._open = [_OpenGame(self._game.start(), learner=number % 2) for number in range(self.size)]
        self.timer.charge("load")

    def _load(self, player: int, weights: Weights) -> None:
        if weights.version != self._loaded[player]:
            self._evaluators[player].load(weights)
            self._loaded[player] = weights.version

    def _move(self, player: int, games: Sequence[tuple[int, _OpenGame]]) -> None:
        """Draws and plays a move of this player in each of the games."""
        turn = [(number, game) for number, game in games if not game.position.is_terminal]
        if not turn:
            return
        searches = self._searches[player]
        for index, (number, game) in enumerate(turn):
            searches.begin(index, game.position, self._search_seed(number, len(game.actions)))
        while not searches.is_done():
            step(searches, self._evaluators[player])
        for index, (_, game) in enumerate(turn):
            game.play(searches.result(index))
        self._counts["plies"] += len(turn)
        self._counts["rows"] += len(turn) if player == LEARNS else 0
        self.timer.charge("select")

    def _search_seed(self, number: int, ply: int) -> int:
        """64 bits of the round, the game and the ply; different for all games of fewer than 65,536 plies."""
        place = ((self._round * self.size + number) << 16) + ply
        return (self._seed + place * 0x9E3779B97F4A7C15) % 2**64

    def _rules(self) -> list[object]:
        return [self._game.name, dict(self._game.params), self.size]

    def _record(self, game: _OpenGame) -> GameRecord:
        position, plies = game.position, len(game.actions)
        sign = 1 if position.to_play == 0 else -1
        learns = np.array([side == game.learner for side in game.sides])  # [T]
        actions = np.array(game.actions, np.uint16)
        columns: dict[str, Any] = {
            "actions": actions,
            "policy_offsets": np.concatenate([[0], np.cumsum(learns)]).astype(np.uint32),
            "policy_actions": actions[learns], "policy_shares": np.full(int(learns.sum()), WHOLE, np.uint16),
            "root_values": np.array(game.values, np.float32), "raw_values": np.array(game.values, np.float32),
            "versions": np.where(learns, *self._loaded).astype(np.uint32),
            "kind": np.full(plies, RowKind.FULL, np.uint8), "row_weight": learns.astype(np.float32),
            "surprise": np.zeros(plies, np.float32),
        }
        game_id = GameId(self._identity.epoch, self._identity.actor, self._identity.incarnation, self.sequence)
        self.sequence += 1
        return GameRecord(
            game=self._game.name, params=dict(self._game.params), game_id=game_id, config_hash=self._config_hash,
            outcome=sign * position.outcome, score=sign * position.score,
            ended_by=EndedBy.PLY_LIMIT if position.is_cut_off else EndedBy.RULES, **columns)


def make_pair(
    config: Config, game: Game, draw: Draw, *, seed: int, identity: ActorIdentity, config_hash: str,
) -> PairedGames:
    """The player of one actor, with evaluators of its own for both policies."""
    timer = StageTimer()
    evaluators = [make_bucketed_evaluator(game, config.inference, config.network, config.actors.games, timer=timer)
                  for _ in (LEARNS, OPPOSES)]
    return PairedGames(game, config.search, evaluators, draw, games=config.actors.games, seed=seed, identity=identity,
                       config_hash=config_hash, timer=timer)
