"""Commands of GTP about the engine itself, the board, komi, rules and time."""

import os
from collections.abc import Sequence

from shusaku.deploy.protocols.clock import Clock
from shusaku.deploy.protocols.gtp.engine import Command, Engine
from shusaku.deploy.protocols.gtp.handicap import fixed_cells, free_cells
from shusaku.deploy.protocols.gtp.rules import OF_KGS, Rules, change_rule, parse_rules
from shusaku.deploy.protocols.gtp.text import (
    SYNTAX_ERROR,
    CommandError,
    expect_words,
    parse_colour,
    parse_count,
    parse_number,
)

KGS_CLOCKS = {"none": 1, "absolute": 2, "byoyomi": 4, "canadian": 4}  # arguments, the name included


def protocol_version(engine: Engine, words: Sequence[str]) -> str:
    """The version of GTP."""
    return "2"


def name(engine: Engine, words: Sequence[str]) -> str:
    """The name of the engine."""
    return engine.settings.name


def version(engine: Engine, words: Sequence[str]) -> str:
    """Of the program, and of the weights."""
    return engine.settings.version


def quit_engine(engine: Engine, words: Sequence[str]) -> str:
    """The loop ends after this answer."""
    return ""


def boardsize(engine: Engine, words: Sequence[str]) -> str:
    """The only size is the network's; hex may be told both sides."""
    expect_words(words, 1, 2)
    sizes = {parse_count(word) for word in words}
    if sizes != {engine.state.size}:
        raise CommandError("unacceptable size")
    engine.begin_game()
    return ""


def clear_board(engine: Engine, words: Sequence[str]) -> str:
    """No stones, no moves, and no tree of the game before."""
    engine.begin_game()
    return ""


def komi(engine: Engine, words: Sequence[str]) -> str:
    """Every komi is taken; the other games have none."""
    expect_words(words, 1)
    engine.state.komi = parse_number(words[0])
    engine.state.set_rules(engine.rules.params)
    return ""


def get_komi(engine: Engine, words: Sequence[str]) -> str:
    """Komi as it was set."""
    return f"{engine.state.komi:g}"


def fixed_handicap(engine: Engine, words: Sequence[str]) -> str:
    """Stones on the points that GTP fixes."""
    expect_words(words, 1)
    _expect_empty_board(engine)
    return _place(engine, fixed_cells(engine.state.game, parse_count(words[0])))


def place_free_handicap(engine: Engine, words: Sequence[str]) -> str:
    """Stones on points that we choose."""
    expect_words(words, 1)
    _expect_empty_board(engine)
    return _place(engine, free_cells(engine.state.game, parse_count(words[0])))


def set_free_handicap(engine: Engine, words: Sequence[str]) -> str:
    """Stones on points that the client chooses."""
    _expect_empty_board(engine)
    state = engine.state
    try:
        cells = [state.parse_point(word) for word in words]
    except ValueError:
        raise CommandError("bad vertex list") from None
    if len(cells) < 2 or len(set(cells)) != len(cells) or state.size**2 in cells or len(cells) >= state.size**2:
        raise CommandError("bad vertex list")
    _place(engine, cells)
    return ""


def time_settings(engine: Engine, words: Sequence[str]) -> str:
    """Main time, time and stones of Canadian overtime; time without stones: no limit."""
    expect_words(words, 3)
    main, overtime, stones = (parse_number(word) for word in words)
    if min(main, overtime, stones) < 0:
        raise SYNTAX_ERROR
    if overtime and not stones:
        clock = Clock()
    elif overtime:
        clock = Clock.canadian(main, overtime, int(stones))
    else:
        clock = Clock.absolute(main)
    engine.set_time(clock)
    return ""


def kgs_time_settings(engine: Engine, words: Sequence[str]) -> str:
    """`none`, `absolute MAIN`, `byoyomi MAIN PERIOD PERIODS`, `canadian MAIN PERIOD STONES`."""
    if not words or len(words) != KGS_CLOCKS.get(words[0], -1):
        raise SYNTAX_ERROR
    kind, numbers = words[0], [parse_number(word) for word in words[1:]]
    if any(number < 0 for number in numbers):
        raise SYNTAX_ERROR
    if kind == "none":
        clock = Clock()
    elif kind == "absolute":
        clock = Clock.absolute(*numbers)
    elif kind == "byoyomi":
        clock = Clock.byo_yomi(numbers[0], numbers[1], int(numbers[2]))
    else:
        clock = Clock.canadian(numbers[0], numbers[1], int(numbers[2]))
    engine.set_time(clock)
    return ""


def time_left(engine: Engine, words: Sequence[str]) -> str:
    """The colour's clock: seconds, and stones (or periods) of overtime; 0 in main time."""
    expect_words(words, 3)
    colour, seconds, stones = parse_colour(words[0]), parse_number(words[1]), parse_number(words[2])
    engine.clocks[colour] = engine.clocks[colour].show_left(seconds, int(stones))
    return ""


def get_rules(engine: Engine, words: Sequence[str]) -> str:
    """JSON as KataGo writes it."""
    return engine.rules.to_json()


def set_rules(engine: Engine, words: Sequence[str]) -> str:
    """The name of rules, or JSON."""
    if not words:
        raise SYNTAX_ERROR
    return _change_rules(engine, parse_rules(" ".join(words), engine.rules))


def set_rule(engine: Engine, words: Sequence[str]) -> str:
    """The name of one rule, and its value."""
    expect_words(words, 2)
    value: str | bool = words[1].lower() == "true" if words[1].lower() in ("true", "false") else words[1]
    return _change_rules(engine, change_rule(engine.rules, words[0], value))


def kgs_rules(engine: Engine, words: Sequence[str]) -> str:
    """`chinese`, `aga`, `new_zealand`; there is no territory scoring."""
    expect_words(words, 1)
    if words[0].lower() not in OF_KGS:
        raise CommandError(f"unknown rules {words[0][:40]}: there are {', '.join(OF_KGS)}")
    return _change_rules(engine, parse_rules(OF_KGS[words[0].lower()], engine.rules))


def clear_cache(engine: Engine, words: Sequence[str]) -> str:
    """Forgets the tree and the cached evaluations."""
    engine.analysis.clear()
    return ""


def stop(engine: Engine, words: Sequence[str]) -> str:
    """Every command stops the search that runs; this one does nothing else."""
    return ""


def cputime(engine: Engine, words: Sequence[str]) -> str:
    """Seconds of processor time so far."""
    used = os.times()
    return f"{used.user + used.system:.2f}"


def echo(engine: Engine, words: Sequence[str]) -> str:
    """The arguments."""
    return " ".join(words)


def kgs_chat(engine: Engine, words: Sequence[str]) -> str:
    """(`game` or `private`) NAME MESSAGE: the answer is said in the chat."""
    return f"I am {engine.settings.name} {engine.settings.version}".strip()


def kgs_game_over(engine: Engine, words: Sequence[str]) -> str:
    """Nothing is kept of a game."""
    return ""


def _expect_empty_board(engine: Engine) -> None:
    if any(colour is not None for colour in engine.state.cells):
        raise CommandError("board not empty")


def _place(engine: Engine, cells: list[int]) -> str:
    state = engine.state
    try:
        state.place_handicap(cells)
    except ValueError:
        raise CommandError("bad vertex list") from None
    return " ".join(state.game.start().to_move(cell) for cell in sorted(cells))


def _change_rules(engine: Engine, rules: Rules) -> str:
    engine.rules = rules
    engine.state.bonus = "" if rules.bonus == "0" else rules.bonus
    engine.state.set_rules(rules.params)
    return ""


OF_ALL_GAMES: dict[str, Command] = {
    "protocol_version": protocol_version, "name": name, "version": version, "quit": quit_engine,
    "boardsize": boardsize, "clear_board": clear_board, "komi": komi, "get_komi": get_komi,
    "time_settings": time_settings, "kgs-time_settings": kgs_time_settings, "time_left": time_left,
    "clear_cache": clear_cache, "stop": stop, "cputime": cputime, "echo": echo,
    "kgs-chat": kgs_chat, "kgs-game_over": kgs_game_over,
}
OF_GO: dict[str, Command] = {
    "fixed_handicap": fixed_handicap, "place_free_handicap": place_free_handicap,
    "set_free_handicap": set_free_handicap, "kata-get-rules": get_rules, "kata-set-rules": set_rules,
    "kata-set-rule": set_rule, "kgs-rules": kgs_rules,
}
