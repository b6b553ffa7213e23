"""Random and mutated lines: the engine stays alive, and each of its answers has the form of the protocol."""

import random
import re
import time

import pytest
from gtp_client import GtpClient

from shusaku.actors.analysis.analysis import Analysis
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.common._core import Game
from shusaku.common.messages import Evaluation, Leaves
from shusaku.deploy.protocols.clock import Clock
from shusaku.deploy.protocols.gtp.commands import commands_of
from shusaku.deploy.protocols.gtp.engine import Engine, Settings
from shusaku.deploy.protocols.gtp.text import format_answer, parse_request

ANSWER = re.compile(r"[=?](\d*)( [^\n]+)?\n([^\n]+\n)*\n")
SEEDS = (
    "boardsize 5", "clear_board", "komi 6.5", "play b C3", "play w pass", "play black c4", "genmove b", "genmove w",
    "undo", "fixed_handicap 2", "place_free_handicap 3", "set_free_handicap A1 B2", "time_settings 1 0 0",
    "time_left b 1 0", "kgs-time_settings byoyomi 1 1 3", "final_score", "final_status_list dead", "showboard",
    "lz-analyze b 1", "kata-analyze w 1 rootInfo true ownership true pvVisits true allow b C3,D4 3",
    "kata-genmove_analyze b 1 avoid b C3 1", "lz-genmove_analyze w 2", "kata-get-rules", "kata-set-rules chinese",
    'kata-set-rules {"ko":"SIMPLE","suicide":true}', "kata-set-rule ko POSITIONAL", "kata-raw-nn 0", "kata-raw-nn all",
    "gogui-analyze_commands", "shusaku-policy", "gogui-play_sequence b A1 w B1", "gg-undo 2", "list_commands",
    "known_command name", "loadsgf /dev/null", "kgs-rules aga", "kgs-genmove_cleanup b", "reg_genmove b", "stop",
    "echo a b", "kgs-chat game x hello", "clear_cache", "12 name", "# comment", "", "protocol_version",
)
ADDED = ("-1", "99999999999", "nan", "1e400", "b", "pass", "{", "Z25", "true")
FAST = Settings(simulations=2, limits_clock=True)  # a clock of a million seconds is a line like others
SLOW = ("final", "dead", "cleanup", "owners")  # commands of these are rare here


def mutate(line: str, chance: random.Random) -> str:
    """The line with some of its characters or words changed."""
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(line) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            line = line[:at] + chr(chance.choice([0, 9, 11, 13, 27, 35, 127, 160, 8232, 0x1F600, 0xFFFD])) + line[at:]
        elif kind == 1:
            line = line[:at] + line[at + chance.randrange(1, 4) :]
        elif kind == 2:
            words = line.split()
            chance.shuffle(words)
            line = " ".join(words)
        elif kind == 3:
            words = line.split()
            line = " ".join([*words, chance.choice(ADDED)])
        elif kind == 4:
            line = line.upper() if chance.random() < 0.5 else line * 2
        else:
            line = line[:at] + "".join(chr(chance.randrange(32, 127)) for _ in range(chance.randrange(6))) + line[at:]
    return line.replace("\n", " ")


def hostile_lines(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    lines = []
    while len(lines) < count:
        line = chance.choice(SEEDS)
        if any(word in line for word in SLOW) and chance.random() < 0.8:
            continue
        lines.append(mutate(line, chance) if chance.random() < 0.7 else line)
    return lines


@pytest.mark.parametrize(("name", "size"), [("go", 5), ("othello", 6), ("hex", 4)])
def test_hostile_lines(name: str, size: int) -> None:
    client = GtpClient(name, settings=FAST, size=size)
    survive(client, hostile_lines(250, 1))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_hostile_lines() -> None:
    survive(GtpClient(settings=FAST, size=5), hostile_lines(10_000, 2))


def survive(client: GtpClient, lines: list[str]) -> None:
    for line in lines:
        before = len(client.said)
        client.send(line)
        request = parse_request(line)
        if client.shell.is_busy and request and request.name in ("lz-analyze", "kata-analyze"):  # endless
            client.send("")
        client.wait()
        answer = client.said[before:]
        if request is None:
            assert answer == "", (line, answer)
            continue
        form = ANSWER.fullmatch(answer)
        assert form, (line, answer)
        assert form[1] == request.number, (line, answer)
        assert "internal error" not in answer, (line, answer)
    assert client.ask("1 protocol_version") == "1 2"


def test_a_fault_of_ours_is_an_answer_and_the_game_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GtpClient()

    def fail(engine: Engine, words: object) -> str:
        raise RuntimeError("broken\n\npart")

    table = {**commands_of(client.engine), "name": fail}
    monkeypatch.setattr("shusaku.deploy.protocols.gtp.shell.commands_of", lambda engine: table)
    assert client.raw("4 name") == "?4 internal error: broken\npart\n\n"
    assert "RuntimeError: broken" in client.logged[0]
    assert client.ask("protocol_version") == "2"


class BreakingEvaluator(PseudoRandomEvaluator):
    """Fails at every evaluation while it is broken."""

    is_broken = False

    def __call__(self, leaves: Leaves) -> Evaluation:
        if self.is_broken:
            raise RuntimeError("out of memory")
        return super().__call__(leaves)


@pytest.mark.parametrize(("command", "answer"), [
    ("7 genmove b", "?7 internal error: out of memory\n\n"), ("7 kata-genmove_analyze b 1", "=7\n\n"),
    ("7 lz-genmove_analyze b", "=7\n\n"),
])
def test_a_fault_during_a_search_is_an_answer_and_the_game_goes_on(command: str, answer: str) -> None:
    made: list[BreakingEvaluator] = []

    def make(game: Game) -> BreakingEvaluator:
        made.append(BreakingEvaluator(game, 16))
        return made[-1]

    client = GtpClient(make_evaluator=make)
    for evaluator in made:
        evaluator.is_broken = True
    assert client.raw(command) == answer
    assert "RuntimeError: out of memory" in client.logged[-1]
    before = len(client.said)
    client.send("8 kata-analyze b 1000")
    client.send("")
    assert client.said[before:] == "=8\n\n"
    for evaluator in made:
        evaluator.is_broken = False
    assert client.ask("genmove b") not in ("", "resign")


def test_a_fault_of_the_search_between_two_commands_refuses_neither() -> None:
    made: list[BreakingEvaluator] = []

    def make(game: Game) -> BreakingEvaluator:
        made.append(BreakingEvaluator(game, 16))
        return made[-1]

    client = GtpClient(settings=Settings(simulations=8, ponder=True), make_evaluator=make)
    assert client.ask("genmove b")
    for evaluator in made:
        evaluator.is_broken = True
    client.ask("clear_cache")  # after which the opponent's time is searched
    time.sleep(0.3)  # it has failed, and nobody has looked
    assert client.raw("7 play w d4") == "=7\n\n"
    assert "failed: RuntimeError: out of memory" in client.logged[-1]


def test_the_search_ends_with_a_client_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    client = GtpClient(settings=Settings(simulations=200))
    client.send("kata-genmove_analyze b 1")

    def broken(line: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(client.shell, "_say", broken)
    with pytest.raises(BrokenPipeError):
        client.shell.end()
    assert not is_searching(client.engine.analysis)


def test_answers_hold_no_empty_line() -> None:
    assert format_answer("3", "a\n\nb\x00\t c\n") == "=3 a\nb  c\n\n"
    assert format_answer("", "") == "=\n\n"
    assert format_answer("", "\nboard") == "=\nboard\n\n"


def test_resigns_after_some_hopeless_searches() -> None:
    client = GtpClient(settings=Settings(simulations=8, resign_value=0.99, resign_moves=2))
    assert client.ask("genmove b") != "resign"
    assert client.ask("genmove w") != "resign"
    assert client.ask("genmove b") == "resign"
    client.ask("clear_board")
    assert client.ask("genmove b") != "resign"


def test_a_new_game_has_all_its_time() -> None:
    client = GtpClient()
    client.ask("time_settings 600 0 0")
    client.ask("time_left b 3 0")
    client.ask("clear_board")
    assert client.engine.clocks == [Clock.absolute(600), Clock.absolute(600)]
    client.ask("kgs-time_settings none")
    client.ask("boardsize 9")
    assert client.engine.clocks == [Clock(), Clock()]


def test_ponders_between_commands() -> None:
    client = GtpClient(settings=Settings(simulations=8, ponder=True))
    analysis = client.engine.analysis
    client.ask("genmove b")
    assert is_searching(analysis)
    client.ask("name")
    assert is_searching(analysis)
    client.ask("play w A1")
    client.ask("genmove b")
    client.ask("clear_board")
    assert not is_searching(analysis)
    client.shell.end()


def is_searching(analysis: Analysis) -> bool:
    return not analysis.wait(0)


def test_a_move_that_is_searched_is_answered_at_the_end_of_the_input() -> None:
    client = GtpClient()
    client.send("1 genmove b")
    client.shell.end()
    assert re.fullmatch(r"=1 \S+\n\n", client.said)
    client = GtpClient()
    client.send("kata-analyze b 1")
    client.shell.end()
    assert client.said.endswith("\n\n")
