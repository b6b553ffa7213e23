"""`shusaku match` as a user meets it: who plays which game, what is printed, and what is refused."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shusaku.actors.opponents.uci_games import KNOWN, KnownGame
from shusaku.common._core import Game
from shusaku.common.config.schema import NetworkConfig
from shusaku.common.errors import UsageError
from shusaku.common.hardware import cpu_has_bf16, cpu_has_int8
from shusaku.common.network.weights import load_weights, random_weights, save_weights
from shusaku.deploy.cli import main as cli
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.match.match import run
from shusaku.deploy.run.chosen_weights import choose_weights

ROOT = Path(__file__).resolve().parents[3]
FAKE = ROOT / "tests" / "fixtures" / "fake_gtp_engine.py"
SMALL = ["network.filters=8", "network.blocks=1", "actors.games_per_actor=16", "actors.count=2"]
UCI = ["first.engine=random", "second.engine=uci", "second.command=sh"]
PLAYERS = ["game=tic_tac_toe", "first.engine=random", "second.engine=random"]


def engine(*arguments: str) -> list[str]:
    return ["second.engine=gtp", f"second.command='{shlex.join([sys.executable, str(FAKE), *arguments])}'"]


def match(*argv: str) -> dict[str, Any]:
    return run(compose(["games=10", *argv]), False)


def shusaku(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shusaku", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of tic-tac-toe, with more than one checkpoint."""
    path = tmp_path_factory.mktemp("runs") / "short"
    done = shusaku(
        "local", "experiment=tic_tac_toe", "search=puct", f"run.dir={path}", "run.minutes=0.06",
        "run.checkpoint_seconds=0.7",
        "search.simulations=12", "search.c_puct=2.5", "replay.minimum=200", "learner.batch_size=32",
        "learner.publish_every=10", "strength.enabled=false", "rater.enabled=false", *SMALL,
    )
    assert done.returncode == 0, done.stderr
    return path


def test_the_json_and_the_table(tmp_path: Path) -> None:
    file = tmp_path / "games.jsonl"
    done = shusaku("match", "game=connect_four", "first.engine=mcts", "first.search.simulations=200",
                   "second.engine=random", "games=40", f"match.file={file}", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["wins"] + report["draws"] + report["losses"] == report["games"] == 40
    assert report["wins"] >= 38
    assert report["elo_low"] > 200
    assert report["elo"] is None or report["elo"] > report["elo_low"]
    if report["wins"] == 40:
        assert report["elo"] is report["elo_high"] is None
    assert report["moving_first"]["wins"] + report["moving_second"]["wins"] == report["wins"]
    assert (report["first"]["kind"], report["first"]["simulations"]) == ("mcts", 200)
    assert report["second"]["kind"] == "random"
    assert set(report["faults"].values()) == {0}
    assert "plain UCT (200 random rollouts a move)" in done.stderr
    assert "moving second" in done.stderr
    games = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert sorted(game["game"] for game in games) == list(range(40))
    assert sum(game["points"] for game in games) == report["wins"] + report["draws"] / 2
    by_opening: dict[int, list[float]] = {}
    for game in sorted(games, key=lambda game: int(game["game"])):
        by_opening.setdefault(game["game"] // 2, []).append(game["points"])
    assert sorted(map(sorted, report["pairs"])) == sorted(map(sorted, by_opening.values()))


def test_the_same_command_plays_the_same_match() -> None:
    argv = [*SMALL, "game=tic_tac_toe", "first.checkpoint=random", "second.engine=random", "search.simulations=4"]
    reports = [match(*argv) for _ in range(2)]
    for report in reports:
        del report["seconds"]
    assert reports[0] == reports[1]
    assert match(*argv, "run.seed=9")["seed"] == 9


def test_a_run_meets_its_own_first_checkpoint(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first_weights = run_dir / "weights_first.safetensors"
    kept, newest = load_weights(first_weights), load_weights(run_dir / "weights.safetensors")
    assert kept.version < newest.version
    assert kept.step < newest.step
    # Nothing but the run says which game, network and search: the command line's own would be connect four's.
    report = match(f"first.checkpoint={run_dir}", f"second.checkpoint={first_weights}", "actors.count=2")
    assert report["game"] == "tic_tac_toe"
    assert (report["first"]["simulations"], report["second"]["simulations"]) == (12, 12)
    assert (report["second"]["version"], report["second"]["step"]) == (kept.version, kept.step)
    assert report["first"]["version"] == newest.version
    assert f"version {kept.version}, step {kept.step:,}; puct, 12 simulations" in capsys.readouterr().out


def test_only_what_is_asked_for_differs_from_the_run(run_dir: Path) -> None:
    players = [f"first.checkpoint={run_dir}", f"second.checkpoint={run_dir}", "actors.count=2"]
    report = match(*players, "first.search.simulations=3", "second.search=gumbel")
    assert (report["first"]["policy"], report["first"]["simulations"]) == ("puct", 3)
    assert (report["second"]["policy"], report["second"]["simulations"]) == ("gumbel", 12)
    report = match(*players, "search.simulations=5", "second.search.simulations=2")
    assert (report["first"]["simulations"], report["second"]["simulations"]) == (5, 2)


def test_checkpoints_of_a_run_can_be_named(run_dir: Path) -> None:
    steps = sorted(path.name for path in (run_dir / "checkpoints").iterdir())
    assert len(steps) > 1
    config = compose([f"checkpoint={run_dir}/checkpoints/{steps[0]}"])
    chosen = choose_weights(config)
    assert chosen.weights.step == int(steps[0])
    assert (chosen.search.simulations, chosen.search.c_puct) == (12, 2.5)
    assert choose_weights(compose([f"checkpoint={run_dir}/checkpoints"])).weights.step == int(steps[-1])
    from_file = choose_weights(compose([f"checkpoint={run_dir}/weights.safetensors"]))
    assert (from_file.search.simulations, from_file.search.c_puct) == (12, 2.5)


def test_a_search_is_checked_as_it_is_in_the_end(run_dir: Path) -> None:
    """The run has puct; the preset of the command line, connect four's, has gumbel."""
    options = ["search.leaves=4", "search.move_choice=lcb", "search.graph=true", "search.average_symmetries=true"]
    chosen = choose_weights(compose([f"checkpoint={run_dir}", *options]))
    assert (chosen.search.policy, chosen.search.leaves, chosen.search.graph) == ("puct", 4, True)
    report = match(f"first.checkpoint={run_dir}", *(f"first.{option}" for option in options), "second.engine=random")
    assert report["first"]["policy"] == "puct"
    assert report["score"] > 0.5
    report = match(f"first.checkpoint={run_dir}", *options, "second.engine=mcts")  # are not for plain UCT
    assert report["second"]["kind"] == "mcts"
    with pytest.raises(UsageError, match=r"search.leaves=4: gumbel does not read it"):
        choose_weights(compose([f"checkpoint={run_dir}", "search=gumbel", "search.leaves=4"]))


def test_plain_uct_is_a_search_without_a_network() -> None:
    report = match("game=tic_tac_toe", "first.search=mcts", "second.search.policy=mcts", "search.simulations=7")
    assert [report[key]["kind"] for key in ("first", "second")] == ["mcts", "mcts"]
    assert [report[key]["simulations"] for key in ("first", "second")] == [7, 7]


def test_untrained_is_as_large_as_the_other(run_dir: Path) -> None:
    report = match(f"first.checkpoint={run_dir}", "second.checkpoint=random", "actors.count=1")
    assert (report["second"]["simulations"], report["game"]) == (12, "tic_tac_toe")


def test_what_an_engine_does_wrong_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report = match(*PLAYERS[:2], *engine("--fault", "crash:1"), "second.options={level: 1}")
    assert (report["wins"], report["games"]) == (10, 10)
    assert report["faults"] == {"crash": 10, "timeout": 0, "garbage": 0, "illegal_move": 0, "refusal": 0}
    assert report["second"]["faults"] == {"crash": 10}
    assert report["second"]["name"] == "Fake 1.0"
    text = capsys.readouterr().out
    assert "second gave games away: 10 by crash" in text
    assert "ended with exit code 3" in text
    assert "the engine has had enough" in report["fault_messages"][0]["message"]


@pytest.mark.parametrize(("limit", "said", "key"), [
    ("second.nodes=1000", "nodes 1,000 a move", ("nodes", 1000)), ("second.depth=3", "depth 3 a move", ("depth", 3)),
    ("second.movetime_ms=20", "20 ms a move", ("movetime_ms", 20)),
    ("match.engines=2", "100 ms a move", ("movetime_ms", 100)),  # nothing was said of it
])
def test_an_engine_over_uci(
    limit: str, said: str, key: tuple[str, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN["uci"], "tic_tac_toe", KnownGame("", "", ""))
    command = shlex.join([sys.executable, str(FAKE.parent / "fake_uci_engine.py")])
    report = match(*PLAYERS[:2], "second.engine=uci", f"second.command='{command}'", limit,
                   "second.options={Skill Level: 3, Ponder: false}")
    assert report["faults"] == dict.fromkeys(report["faults"], 0)
    assert (report["second"]["kind"], report["second"]["name"]) == ("uci", "Fake 1.0")
    assert report["second"]["options"] == {"Skill Level": 3, "Ponder": False}
    assert report["second"][key[0]] == key[1]
    assert f"{said})" in capsys.readouterr().out


def test_a_stopped_match_says_what_it_knows(tmp_path: Path) -> None:
    file = tmp_path / "games.jsonl"
    command = [
        sys.executable, "-m", "shusaku", "match", *PLAYERS[:2], *engine("--fault", "timeout:20"), "games=400",
        "match.engines=2", f"match.file={file}", "--json",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_text(encoding="utf-8").count("\n") >= 4):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)  # by now an engine sleeps instead of moving
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    report = json.loads(out.splitlines()[-1])
    assert 4 <= report["games"] < 400
    assert report["wins"] + report["draws"] + report["losses"] == report["games"]
    assert f"stopped after {report['games']} of 400 games" in err


def test_an_engine_that_passes_at_once_never_wins() -> None:
    """White is ahead by the komi as long as the board is empty: Black must not answer the first pass with a pass."""
    report = match("first.checkpoint=shipped", "game=go", "first.search.simulations=16", "games=4",
                   "match.opening_plies=2", *engine("--moves", "pass", "--each", "500"))
    assert report["wins"] == report["games"] == 4
    assert report["mean_plies"] < 100  # and it passes where that wins


@pytest.mark.parametrize(("argv", "reason"), [
    (["first.engine=random"], "second: no player; name second.checkpoint=RUN_DIR|FILE|shipped|random or"),
    (["first.engine=random", "second.engine=xboard"],
     "second.engine=xboard: there are gtp, uci, usi, mcts, random"),
    (["first.engine=random", "second.engine=uci"],
     'second.command=: must name a program: second.command="stockfish"'),
    ([*UCI, "game=go"], "second.engine=uci: has no words for go, only for chess, shogi, minishogi; use "
                        "second.engine=gtp and a program that plays it"),
    ([*UCI, "second.nodes=100", "second.depth=3"],
     "second.depth=3: and second.nodes=100 are two limits of one move; leave one of them out"),
    ([*UCI, "second.movetime_ms=9", "second.nodes=3"], "second.movetime_ms=9: and second.nodes=3 are two limits"),
    ([*UCI, "second.nodes=-1"], "second.nodes=-1: must be at least 0"),
    ([*UCI, "second.movetime_ms=5000", "match.move_seconds=5"],
     "second.movetime_ms=5000: must be less than match.move_seconds=5, or every move comes too late"),
    (["first.engine=random", "second.engine=gtp", "second.command=gnugo", "second.depth=3"],
     "second.depth=3: is for second.engine=uci|usi; a gtp engine is told by second.options or its command"),
    (["first.engine=random", "second.engine=mcts", "second.nodes=3"], "is for second.engine=uci|usi; leave it out"),
    (["first.engine=random", "second.engine=gtp"], "second.command=: must name a program"),
    (["first.engine=random", "second.engine=gtp", "second.command=no-such-program"], "there is no program"),
    (["first.engine=random", "second.engine=gtp", "second.command='\"a'"], "close every quotation mark"),
    (["first.engine=random", "second.command=gnugo"], "second.command=gnugo: is for second.engine=gtp"),
    (["first.engine=random", "second.engine=mcts", "second.options={a: 1}"], "are for second.engine=gtp"),
    (["first.engine=random", "second.engine=gtp", "second.options=3"], "must be a map"),
    (["first.engine=random", "second.engine=mcts", "second.checkpoint=random"], "leave one of them out"),
    (["first.checkpoint=random", "first.search.policy=mcts", "second.engine=mcts"], "plain UCT asks no network"),
    (["first.engine=mcts", "first.search.simulatons=3"], "nearest: first.search.simulations"),
    (["first.engine=mcts", "first.search.simulations=0"], "first.search.simulations=0: must be at least 1"),
    (["frst.engine=mcts"], "nearest: first.engine"),
    (["first.search=alpha"], "first.search is a section"),
    (["first.checkpoint=random", "second.engine=random", "search=gumbel", "first.search.leaves=8"],
     "first.search.leaves=8: gumbel does not read it"),
    (["first.checkpoint=random", "second.engine=random", "search=gumbel", "first.search.graph=true"],
     "first.search.graph=true: gumbel does not read it"),
    (["first.checkpoint=random", "second.engine=random", "search=gumbel", "first.search.move_choice=lcb"],
     "gumbel does not read it"),
    (["first.engine=mcts", "first.search.graph=true", "second.engine=random"], "mcts does not read it"),
    (["first.checkpoint=random", "second.engine=random", "second.search.simulations=3"],
     "second.search.simulations=3: is of a search of ours, and second.engine=random has none; leave it out"),
    (["first.engine=random", "second.engine=gtp", "second.command=gnugo", "second.search=puct"],
     "second.search.policy=puct: is of a search of ours, and second.engine=gtp has none"),
    ([*PLAYERS, "games=5"], "games=5: must be an even number"),
    ([*PLAYERS, "match.sprt=[20,0,0.05,0.05]"], "match.sprt=[20.0,0.0,0.05,0.05]: must be [elo0,elo1,alpha,beta]"),
    ([*PLAYERS, "match.sprt=[0,20]"], "match.sprt=[0.0,20.0]: must be [elo0,elo1,alpha,beta]"),
    ([*PLAYERS, "games=0"], "games=0: must be an even number"),
    ([*PLAYERS, "match.opening_plies=9"], "match.opening_plies=9: tic_tac_toe was over"),
    ([*PLAYERS, "match.file=/no/such/folder/x"], "match.file=/no/such/folder/x: No such file"),
    (["first.checkpoint=nowhere", "second.engine=random"], "first.checkpoint=nowhere: no such file"),
])
def test_wrong_words_are_one_line(argv: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["match", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert reason in captured.err


def test_two_games_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name in ("tic_tac_toe", "connect_four"):
        files.append(tmp_path / f"{name}.safetensors")
        save_weights(files[-1], random_weights(Game(name), NetworkConfig(8, 1), 1, version=1))
    assert cli.main(["match", f"first.checkpoint={files[0]}", f"second.checkpoint={files[1]}"]) == 2
    err = capsys.readouterr().err
    assert "first.checkpoint plays tic_tac_toe, second.checkpoint plays connect_four" in err
    assert cli.main(["match", "game=connect_four", f"first.checkpoint={files[0]}", "second.engine=random"]) == 2
    assert "not the game that was asked for" in capsys.readouterr().err


def test_each_network_has_its_precision() -> None:
    players = [*SMALL, "game=tic_tac_toe", "first.checkpoint=random", "second.checkpoint=random",
               "search.simulations=4"]
    report = match(*players, "first.precision=fp32", "second.precision=int8")
    rounded = "int8" if cpu_has_int8() else "bf16" if cpu_has_bf16() else "fp32"
    assert [report[key]["precision"] for key in ("first", "second")] == ["fp32", rounded]
    with pytest.raises(UsageError, match=r"first\.precision=int4"):
        compose([*players, "first.precision=int4"])
    with pytest.raises(UsageError, match=r"second\.engine=random has none"):
        compose([*players[:-2], "second.engine=random", "second.precision=fp32"])


def test_a_match_ends_when_its_test_has_decided(capsys: pytest.CaptureFixture[str]) -> None:
    players = [*SMALL, "game=connect_four", "first.engine=mcts", "first.search.simulations=100",
               "second.engine=random", "games=1000"]
    report = match(*players, "match.sprt=[0,100,0.05,0.05]")
    test = report["sprt"]
    assert test["accepted"] == "H1"
    assert 8 <= sum(test["pairs"]) <= report["games"] / 2 < 300
    assert "SPRT: +100 Elo rather than +0 (H1), after" in capsys.readouterr().out
    undecided = match(*players[:-1], "games=4", "match.sprt=[0,100,0.05,0.05]")
    assert (undecided["sprt"]["accepted"], undecided["games"]) == ("", 4)
