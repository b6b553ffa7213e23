"""Options of engines as lines, and the words in which they are set or refused."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from shusaku.actors.opponents.uci_games import KNOWN, from_engine, start_words, to_engine
from shusaku.actors.opponents.uci_options import EngineOption, option_commands, parse_option
from shusaku.common.errors import UsageError

LINES = {  # as Stockfish 15.1, Fairy-Stockfish 11.1 and gpsshogi 0.7.0 write them
    "option name Skill Level type spin default 20 min -20 max 20":
        EngineOption("Skill Level", "spin", "20", -20, 20, ()),
    "option name Debug Log File type string default ": EngineOption("Debug Log File", "string", "", None, None, ()),
    "option name SyzygyPath type string default <empty>": EngineOption("SyzygyPath", "string", "", None, None, ()),
    "option name EvalFile type string default my max net.nnue":
        EngineOption("EvalFile", "string", "my max net.nnue", None, None, ()),
    "option name Clear Hash type button": EngineOption("Clear Hash", "button", "", None, None, ()),
    "option name Use NNUE type check default true": EngineOption("Use NNUE", "check", "true", None, None, ()),
    "option  name Analysis Contempt type combo default Both var Both var Off var Very White":
        EngineOption("Analysis Contempt", "combo", "Both", None, None, ("Both", "Off", "Very White")),
    "option name Free type spin": EngineOption("Free", "spin", "", None, None, ()),
}


@pytest.mark.parametrize(("line", "option"), LINES.items(), ids=[option.name for option in LINES.values()])
def test_a_line_is_an_option(line: str, option: EngineOption) -> None:
    assert parse_option(line) == option


@pytest.mark.parametrize("line", [
    "option name", "option name X", "option name X type", "option name  type spin", "option type spin",
    "option name X type spin default 1 min low max 3", "option name X type spin min",
])
def test_what_is_no_option_is_passed_over(line: str) -> None:
    assert parse_option(line) is None


def known() -> list[EngineOption]:
    return [option for line in LINES if (option := parse_option(line)) is not None]


@pytest.mark.parametrize(("name", "value", "command"), [
    ("Skill Level", -3, "setoption name Skill Level value -3"),
    ("skill level", "7", "setoption name Skill Level value 7"),
    ("Free", 10**9, "setoption name Free value 1000000000"),
    ("Use NNUE", False, "setoption name Use NNUE value false"),
    ("Use NNUE", "True", "setoption name Use NNUE value true"),
    ("Clear Hash", None, "setoption name Clear Hash"),
    ("Clear Hash", True, "setoption name Clear Hash"),
    ("Analysis Contempt", "very white", "setoption name Analysis Contempt value Very White"),
    ("SyzygyPath", "/a b/c", "setoption name SyzygyPath value /a b/c"),
    ("SyzygyPath", "", "setoption name SyzygyPath value <empty>"),
])
def test_a_value_that_fits_is_sent(name: str, value: Any, command: str) -> None:
    assert option_commands("second.options", known(), {name: value}) == [command]


@pytest.mark.parametrize(("name", "value", "message"), [
    ("Skill Level", 21, "second.options={Skill Level: 21}: must lie between -20 and 20"),
    ("Skill Level", "high", "second.options={Skill Level: high}: must be a whole number"),
    ("Skill Level", 2.5, "second.options={Skill Level: 2.5}: must be a whole number"),
    ("Skill Level", True, "second.options={Skill Level: true}: must be a whole number"),
    ("Skill Level", None, "second.options={Skill Level: null}: must be a whole number"),
    ("Use NNUE", 1, "second.options={Use NNUE: 1}: must be true or false"),
    ("Clear Hash", 3, "second.options={Clear Hash: 3}: is a button and takes no value; write null"),
    ("Clear Hash", False, "second.options={Clear Hash: false}: is a button"),
    ("Analysis Contempt", "Of", "there is no such value; nearest: Off; there are Both, Off, Very White"),
    ("SyzygyPath", "a\nquit", "must be one line"),
    ("Use NNU", True, "the engine announces no option Use NNU; nearest: Use NNUE; it has Skill Level, "),
])
def test_a_value_that_does_not_fit_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        option_commands("second.options", known(), {name: value})


def test_an_engine_without_options_says_so() -> None:
    with pytest.raises(UsageError, match="announces no option Hash; it has none"):
        option_commands("first.options", [], {"Hash": 3})


@pytest.mark.parametrize(("game", "ours", "theirs"), [
    ("shogi", "7g7f", "c3c4"), ("shogi", "8h2b+", "b2h8+"), ("shogi", "P*5e", "P@e5"), ("shogi", "9i1a", "a1i9"),
    ("minishogi", "3e2d", "c1d2"), ("minishogi", "5d5c", "a2a3"), ("minishogi", "G*1a", "G@e5"),
    ("chess", "e7e8q", "e7e8q"),
])
def test_moves_over_uci_are_named_as_fairy_stockfish_names_them(game: str, ours: str, theirs: str) -> None:
    known_game = KNOWN["uci"][game]
    assert to_engine(known_game, ours) == theirs
    assert from_engine(known_game, theirs) == ours


def test_what_is_no_move_stays_as_it_is() -> None:
    for text in ("", "win", "(none)", "z9z8", "c3", "c3c4=", "pass"):
        assert from_engine(KNOWN["uci"]["shogi"], text) == to_engine(KNOWN["uci"]["shogi"], text) == text
    assert from_engine(KNOWN["usi"]["shogi"], "7g7f") == "7g7f"


@pytest.mark.parametrize(("text", "words"), [
    (KNOWN["usi"]["minishogi"].start, "startpos"),
    ("4k/5/5/5/K4 b - 1", "sfen 4k/5/5/5/K4 b - 1"),
])
def test_a_game_that_begins_elsewhere_says_where(text: str, words: str) -> None:
    game: Any = SimpleNamespace(start=lambda: SimpleNamespace(text=text))
    assert start_words(KNOWN["usi"]["minishogi"], game) == words
