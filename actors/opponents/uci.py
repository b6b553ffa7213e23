"""A game with an engine that speaks UCI or USI, which is told all moves from the start before each of its own."""

from collections.abc import Sequence

from shusaku.actors.arena.players import Forfeit, OpenGame, ShouldStop
from shusaku.actors.opponents.process import EngineFault
from shusaku.actors.opponents.session import EngineSettings
from shusaku.actors.opponents.uci_engine import UciEngine
from shusaku.actors.opponents.uci_games import from_engine, known_game, start_words, to_engine
from shusaku.actors.opponents.uci_options import EngineOption, option_commands
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

VARIANT = "UCI_Variant"  # the option by which an engine of many games learns which one is played; USI_Variant, too
NO_MOVE = ("(none)", "0000", "null", "none")  # what engines say where they see no legal move
RESULTS = {1: "win", 0: "draw", -1: "lose"}


class UciSession:
    """Moves travel as the texts of our games, which for chess are UCI's and for shogi USI's (see uci_games)."""

    def __init__(
        self, key: str, program: str, game: Game, settings: EngineSettings, should_stop: ShouldStop
    ) -> None:
        self._key, self._game, self._settings = key, game, settings
        self._known = known_game(key, settings.protocol, game)
        self._position = f"position {start_words(self._known, game)}"
        self._is_usi = settings.protocol == "usi"
        self._side = 0  # the engine's, in the game under way
        self._has_resigned = False
        self.name = ""
        self.engine = UciEngine([program, *settings.command[1:]], should_stop)

    def start(self) -> None:
        settings, seconds = self._settings, self._settings.start_seconds
        self.name, options = self.engine.introduce(settings.protocol, seconds)
        commands = option_commands(f"{self._key}.options", options, settings.options)
        self._check_variant(options)
        for command in commands:
            self.engine.send(command)
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """UCI says that a game is new and then waits; USI waits first, for what may take long."""
        if self._is_usi:
            self.engine.wait_until_ready(seconds)
            self.engine.send("usinewgame")
        else:
            self.engine.send("ucinewgame")
            self.engine.wait_until_ready(seconds)
        self._has_resigned = False

    def choose(self, game: OpenGame) -> int | Forfeit:
        self._side = game.position.to_play
        moves = " ".join(to_engine(self._known, text) for _, text in game.moves)
        position = f"{self._position} moves {moves}" if moves else self._position
        move = self.engine.best_move(position, self._go(), self._settings.move_seconds)
        if self._is_usi and move == "resign":
            self._has_resigned = True
            return Forfeit("resignation", "")
        return self._action(game, move)

    def end(self, game: OpenGame) -> None:
        if self._is_usi:
            self.engine.send(f"gameover {RESULTS[self._result(game)]}")

    def _result(self, game: OpenGame) -> int:
        """For the engine: 1, 0, -1."""
        if self._has_resigned:
            return -1
        if not game.position.is_terminal:  # the other one gave up; what this one does wrong ends its process
            return 1
        outcome = game.position.outcome
        return outcome if game.position.to_play == self._side else -outcome

    def _go(self) -> str:
        """USI's own words for a time are byoyomi without any other: gpsshogi knows nothing else."""
        name, count = self._settings.limit
        if name != "movetime_ms":
            return f"go {name} {count}"
        return f"go btime 0 wtime 0 byoyomi {count}" if self._is_usi else f"go movetime {count}"

    def _action(self, game: OpenGame, move: str) -> int:
        """EngineFault where our rules do not allow it; `win` is a move where the rules have a declaration."""
        position = game.position
        if move.lower() in NO_MOVE:
            raise EngineFault("illegal_move", f"at ply {position.ply}: says {move} for no move, where "
                                              f"{len(position.legal_actions)} are legal")
        text = from_engine(self._known, move)
        try:
            return position.from_move(text)
        except ValueError as error:
            what = "declares a win that our rules do not give it: " if self._is_usi and move == "win" else ""
            said = "" if text == move else f"{move}, which is {text}: "
            raise EngineFault("illegal_move", f"at ply {position.ply}: {what}{said}{str(error)[:120]}") from None

    def _check_variant(self, options: Sequence[EngineOption]) -> None:
        """UsageError where it would play another game than ours, as far as it says which it plays."""
        wanted = self._known.variant
        option = next((o for o in options if o.name.lower() in (VARIANT.lower(), "usi_variant")), None)
        if option is None:
            if self._is_usi or wanted in ("", "chess"):
                return
            raise UsageError(f"{self._key}.command={self._settings.text}: the engine announces no option {VARIANT}, so "
                             f"it plays chess over UCI, not {wanted}; use an engine that does, or "
                             f"{self._key}.engine=usi")
        given = [value for name, value in self._settings.options.items() if str(name).lower() == option.name.lower()]
        plays = str(given[-1]) if given else option.default
        if wanted and plays.lower() != wanted:
            raise UsageError(f"{self._key}.options: with {option.name}={plays} the engine does not play {wanted}; give "
                             f"'{self._key}.options={{{option.name}: {wanted}}}'")
