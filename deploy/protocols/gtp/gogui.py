"""What GoGui shows: analyze commands for boards of numbers, and the rules of games that are not Go."""

from collections.abc import Sequence

import numpy as np

from shusaku.actors.analysis.report import Limits, Report
from shusaku.deploy.protocols.gtp.analyse import vertices, win_rate
from shusaku.deploy.protocols.gtp.engine import Command, Engine
from shusaku.deploy.protocols.gtp.raw_network import evaluate_positions
from shusaku.deploy.protocols.gtp.status import find_owners
from shusaku.deploy.protocols.gtp.text import LETTERS, expect_words

ANALYZE_COMMANDS = (  # type/label/command
    "dboard/Network: policy/shusaku-policy",
    "dboard/Search: shares of the visits/shusaku-visits",
    "dboard/Search: values/shusaku-values",
    "gfx/Search: best moves/shusaku-best",
    "var/Search: variation/shusaku-variation",
    "string/Network: value/shusaku-value",
    "hstring/Network: everything/kata-raw-nn 0",
    "hstring/Legal moves/all_legal",
    "none/Clear the cache/clear_cache",
)
OF_GO_ONLY = (
    "dboard/Final owners/shusaku-owners",
    "plist/Dead stones/final_status_list dead",
    "string/Final score/final_score",
    "string/Rules/kata-get-rules",
)
SHOWN_MOVES = 5


def analyze_commands(engine: Engine, words: Sequence[str]) -> str:
    """What GoGui offers in its window."""
    expect_words(words, 0)
    return "\n".join([*ANALYZE_COMMANDS, *(OF_GO_ONLY if engine.state.is_go else ())])


def policy(engine: Engine, words: Sequence[str]) -> str:
    """The network's policy at each point."""
    _, priors = _evaluate(engine)
    return board_of_numbers(priors[: engine.state.size**2], engine.state.size)


def value(engine: Engine, words: Sequence[str]) -> str:
    """The network's value, as a share of won games."""
    expected, _ = _evaluate(engine)
    return f"{win_rate(expected):.4f}"


def visits(engine: Engine, words: Sequence[str]) -> str:
    """The share of the search that each move had."""
    moves = _search(engine).moves
    total = max(1, sum(move.visits for move in moves))
    return _of_moves(engine, {move.action: move.visits / total for move in moves})


def values(engine: Engine, words: Sequence[str]) -> str:
    """The value of each move that was searched, for the player to move."""
    return _of_moves(engine, {move.action: move.value for move in _search(engine).moves if move.visits})


def best(engine: Engine, words: Sequence[str]) -> str:
    """The most visited moves with their values, and the best variation."""
    report, position = _search(engine), engine.analysis.position
    labels = [f"{move.move.upper()} {round(100 * win_rate(move.value))}" for move in report.moves[:SHOWN_MOVES]
              if move.visits and move.move != "pass"]
    text = f"TEXT {report.simulations} simulations, {100 * win_rate(report.value):.1f} % for the player to move, " \
           f"{' '.join(vertices(position, report.moves[0].variation))}"
    return "\n".join([*([f"LABEL {' '.join(labels)}"] if labels else []), text])


def variation(engine: Engine, words: Sequence[str]) -> str:
    """The best variation with its colours."""
    report, position = _search(engine), engine.analysis.position
    moves = vertices(position, report.moves[0].variation)
    return " ".join(f"{'bw'[(position.to_play + number) % 2]} {move}" for number, move in enumerate(moves))


def owners(engine: Engine, words: Sequence[str]) -> str:
    """1: a point of black at the end of the game, -1: of white."""
    return board_of_numbers(find_owners(engine), engine.state.size)


def board_of_numbers(numbers: Sequence[float] | np.ndarray, size: int) -> str:
    """[H * W] in [-1, 1] as rows of numbers from the top."""
    texts = [f"{number:.4f}" for number in numbers]
    return "\n" + "\n".join(" ".join(texts[row * size : (row + 1) * size]) for row in range(size))


def interrupt(engine: Engine, words: Sequence[str]) -> str:
    """Tells GoGui that the comment `# interrupt` ends a search."""
    return ""


def game_id(engine: Engine, words: Sequence[str]) -> str:
    """The name of the game."""
    return engine.state.game.name.capitalize()


def board(engine: Engine, words: Sequence[str]) -> str:
    """Rows of `X`, `O` and `.` from the top."""
    signs = ["." if colour is None else "XO"[colour] for colour in engine.state.cells]
    size = engine.state.size
    return "\n" + "\n".join(" ".join(signs[row * size : (row + 1) * size]) for row in range(size))


def board_size(engine: Engine, words: Sequence[str]) -> str:
    """Rows and columns."""
    return str(engine.state.size)


def legal_moves(engine: Engine, words: Sequence[str]) -> str:
    """Of the player to move, the pass included."""
    position = engine.state.position
    return " ".join(position.to_move(action) for action in position.legal_actions)


def side_to_move(engine: Engine, words: Sequence[str]) -> str:
    """`black` or `white`."""
    return ("black", "white")[engine.state.position.to_play]


def final_result(engine: Engine, words: Sequence[str]) -> str:
    """Who has won; empty while the game goes on."""
    position = engine.state.position
    if not position.is_terminal:
        return ""
    winner = position.to_play if position.outcome > 0 else 1 - position.to_play
    return f"{LETTERS[winner]}+" if position.outcome else "0"


def _evaluate(engine: Engine) -> tuple[float, np.ndarray]:
    engine.place(engine.state.position.to_play)
    expected, priors = evaluate_positions(engine.state.game, [engine.analysis.position], engine.evaluate)
    return float(expected[0]), priors[0]


def _search(engine: Engine) -> Report:
    engine.place(engine.state.position.to_play)
    engine.analysis.start(Limits(simulations=engine.settings.simulations))
    engine.analysis.wait()
    return engine.analysis.report()


def _of_moves(engine: Engine, numbers: dict[int, float]) -> str:
    size = engine.state.size
    return board_of_numbers([numbers.get(cell, 0.0) for cell in range(size**2)], size)


OF_ALL_GAMES: dict[str, Command] = {
    "gogui-analyze_commands": analyze_commands, "shusaku-policy": policy, "shusaku-value": value,
    "shusaku-visits": visits, "shusaku-values": values, "shusaku-best": best, "shusaku-variation": variation,
    "gogui-interrupt": interrupt, "gogui-rules_game_id": game_id, "gogui-rules_board": board,
    "gogui-rules_board_size": board_size,
    "gogui-rules_legal_moves": legal_moves, "gogui-rules_side_to_move": side_to_move,
    "gogui-rules_final_result": final_result,
}
OF_GO: dict[str, Command] = {"shusaku-owners": owners}
