"""Engines that speak UCI, or its twin for shogi USI: lines whose first word says what they are.

UCI: Meyer-Kahlen and Huber, "Description of the universal chess interface", 2004.  USI: Tord Romstad, 2007.
"""

from collections.abc import Callable, Sequence

from shusaku.actors.arena.players import Forfeit, OpenGame
from shusaku.actors.opponents.process import EngineError, EngineProcess, quote
from shusaku.actors.opponents.session import EngineSession, EngineSettings
from shusaku.actors.opponents.uci_games import from_engine, known_game, start_words, to_engine
from shusaku.actors.opponents.uci_options import EngineOption, option_commands, parse_option
from shusaku.common._core import Game
from shusaku.common.errors import UsageError

VARIANT = "UCI_Variant"  # the option that chooses the game, in engines for several; some call it USI_Variant
NO_MOVE = ("(none)", "0000", "null", "none")  # what engines answer if they see no legal move
RESULTS = {1: "win", 0: "draw", -1: "lose"}
MAX_LINE = 1 << 16  # bytes
MAX_OUTPUT = 1 << 25  # bytes before an answer: enough for the output of a minute's search, and a bound for a flood


class UciEngine(EngineProcess):
    """One process that speaks UCI or USI; one command at a time.  Unknown lines are ignored, as UCI demands."""

    def introduce(self, protocol: str, seconds: float) -> tuple[str, list[EngineOption]]:
        """The engine's name and its options; `protocol`: uci | usi."""
        names: list[str] = []
        options: list[EngineOption] = []

        def collect(line: str) -> None:
            words = line.split()
            if words[:2] == ["id", "name"]:
                names.append(" ".join(words[2:]))
            elif words[:2] == ["option", "name"] and (option := parse_option(line)) is not None:
                options.append(option)

        self.send(protocol)
        self._await(f"{protocol}ok", protocol, seconds, collect)
        return " ".join(names[:1]), options

    def wait_until_ready(self, seconds: float) -> None:
        """Returns when the engine has processed every command so far."""
        self.send("isready")
        self._await("readyok", "isready", seconds)

    def best_move(self, position: str, go: str, seconds: float) -> str:
        """The word behind `bestmove`."""
        if b"\nbestmove" in b"\n" + (early := self.unread()):
            raise EngineError("garbage", f"said {quote(early)} before it was asked to {go}")
        self.send(position)
        self.send(go)
        words = self._await("bestmove", go, seconds)
        if len(words) < 2:
            raise EngineError("garbage", f"answered 'bestmove' without a move to {go}")
        return words[1]

    def _await(
        self, word: str, command: str, seconds: float, other_line: Callable[[str], None] = lambda line: None
    ) -> Sequence[str]:
        """The words of the line that begins with `word`; lines before it go to `other_line`."""
        taken = 0

        def take(said: bytes) -> tuple[Sequence[str] | None, bytes]:
            nonlocal taken
            begin = 0
            while (end := said.find(b"\n", begin)) >= 0:
                line = said[begin:end].decode(errors="replace")
                begin = end + 1
                words = line.split()
                if words[:1] == [word]:
                    return words, said[begin:]
                if words[:1] == ["bestmove"]:
                    raise EngineError("garbage", f"said {line.strip()!r} when it was asked to {command}")
                other_line(line)
            taken += begin
            if len(said) - begin > MAX_LINE:
                raise EngineError("garbage", f"answered {command} with a line of more than {MAX_LINE:,} bytes: "
                                             f"{quote(said[begin:])}")
            if taken > MAX_OUTPUT:
                raise EngineError("garbage", f"said more than {MAX_OUTPUT:,} bytes and no {word} to {command}: "
                                             f"{quote(said)}")
            return None, said[begin:]

        return self.receive(command, seconds, take, f"the end of its line, or {word}")


class UciSession(EngineSession):
    """Plays games with one process, which gets all moves from the start with each request for a move.

    Moves are written as in our games, which is UCI's notation for chess and USI's for shogi (see uci_games).
    """

    engine: UciEngine
    _side = 0  # of the engine in the current game
    _has_resigned = False

    def __init__(self, engine: UciEngine, key: str, game: Game, settings: EngineSettings) -> None:
        super().__init__(engine, key, game, settings)
        self._known = known_game(key, settings.protocol, game)
        self._position = f"position {start_words(self._known, game)}"
        self._is_usi = settings.protocol == "usi"

    def start(self) -> None:
        """Makes the engine ready for its first game; see `EngineSession`."""
        settings, seconds = self._settings, self._settings.start_seconds
        self.name, options = self.engine.introduce(settings.protocol, seconds)
        commands = option_commands(f"{self._key}.options", options, settings.options)
        self._check_variant(options)
        for command in commands:
            self.engine.send(command)
        self.begin(seconds)

    def begin(self, seconds: float) -> None:
        """Announces a new game: UCI waits after the announcement, USI before it."""
        if self._is_usi:
            self.engine.wait_until_ready(seconds)
            self.engine.send("usinewgame")
        else:
            self.engine.send("ucinewgame")
            self.engine.wait_until_ready(seconds)
        self._has_resigned = False

    def choose(self, game: OpenGame) -> int | Forfeit:
        """Sends the position and asks for a move."""
        self._side = game.position.to_play
        moves = " ".join(to_engine(self._known, text) for _, text in game.moves)
        position = f"{self._position} moves {moves}" if moves else self._position
        move = self.engine.best_move(position, self._go(), self._settings.move_seconds)
        if self._is_usi and move == "resign":
            self._has_resigned = True
            return Forfeit("resignation", "")
        return self._action(game, move)

    def end(self, game: OpenGame) -> None:
        """Sends the result, for which only USI has a command."""
        if self._is_usi:
            self.engine.send(f"gameover {RESULTS[self._result(game)]}")

    def _result(self, game: OpenGame) -> int:
        """The result for the engine: 1, 0 or -1."""
        if self._has_resigned:
            return -1
        if not game.position.is_terminal:  # the opponent forfeited; a fault of this engine would have ended its process
            return 1
        outcome = game.position.outcome
        return outcome if game.position.to_play == self._side else -outcome

    def _go(self) -> str:
        """The search command; in USI a time per move is byoyomi alone, the only limit that gpsshogi knows."""
        name, count = self._settings.limit
        if name != "movetime_ms":
            return f"go {name} {count}"
        return f"go btime 0 wtime 0 byoyomi {count}" if self._is_usi else f"go movetime {count}"

    def _action(self, game: OpenGame, move: str) -> int:
        """EngineError if our rules do not allow the move; `win` is a move if the rules have a declaration."""
        position = game.position
        if move.lower() in NO_MOVE:
            raise EngineError("illegal_move", f"at ply {position.ply}: says {move} for no move, where "
                                              f"{len(position.legal_actions)} are legal")
        text = from_engine(self._known, move)
        try:
            return position.from_move(text)
        except ValueError as error:
            what = "declares a win that our rules do not give it: " if self._is_usi and move == "win" else ""
            said = "" if text == move else f"{move}, which is {text}: "
            raise EngineError("illegal_move", f"at ply {position.ply}: {what}{said}{str(error)[:120]}") from None

    def _check_variant(self, options: Sequence[EngineOption]) -> None:
        """UsageError if the engine announces that it plays another game."""
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
