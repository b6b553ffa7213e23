"""`search=alphago` in a match: which networks a player asks, what limits its search, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shusaku.actors.analysis.analysis import Limits
from shusaku.actors.evaluators.dummies import UniformEvaluator
from shusaku.common._core import Game, RolloutTraining
from shusaku.common.config.schema import Config, NetworkConfig
from shusaku.common.config.search import AlphaGoConfig
from shusaku.common.errors import UsageError
from shusaku.common.network.weights import random_weights, save_weights
from shusaku.common.search import search_positions
from shusaku.deploy.cli import main as cli
from shusaku.deploy.cli.overrides import compose
from shusaku.deploy.match.match import run
from shusaku.deploy.match.players import make_parts
from shusaku.deploy.protocols.gtp.raw_network import evaluate_positions
from shusaku.deploy.protocols.opening import open_analysis

NETWORK = NetworkConfig(filters=8, blocks=1)
RANDOM = ["second.engine=random", "actors.count=2"]
FEW = ["first.search.simulations=30", "first.search.expand_after=3"]


def match(*argv: str) -> dict[str, Any]:
    return run(compose(["games=4", *RANDOM, *argv]), False)


def weights_file(folder: Path, name: str, game: Game, seed: int) -> str:
    path = folder / f"{name}.safetensors"
    save_weights(path, random_weights(game, NETWORK, seed, version=seed))
    return str(path)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    return weights_file(tmp_path, "policy", Game("connect_four"), 1)


@pytest.fixture
def value(tmp_path: Path) -> str:
    return weights_file(tmp_path, "value", Game("connect_four"), 2)


@pytest.mark.parametrize(("networks", "settings"), [
    ("policy value", []), ("policy value", ["first.search.rollout_share=0"]),
    ("policy", ["first.search.rollout_share=1"]), ("value", []), ("value", ["first.search.rollout_share=0"]),
    ("", ["first.search.rollout_share=1", "game=connect_four"]),
])
def test_the_variants_of_the_paper_play(networks: str, settings: list[str], policy: str, value: str) -> None:
    names = {"policy": policy, "value": value}
    players = [f"first.{name}={names[name]}" for name in networks.split()]
    report = match("first.search=alphago", *players, *FEW, *settings)
    assert report["games"] == 4
    assert (report["first"]["kind"], report["first"]["policy"]) == ("alphago", "alphago")
    assert report["first"]["simulations"] == 30


def test_one_checkpoint_serves_as_both_and_the_same_command_plays_the_same_match(policy: str) -> None:
    reports = [match("search=alphago", f"first.checkpoint={policy}", *FEW) for _ in range(2)]
    for report in reports:
        del report["seconds"]
    assert reports[0] == reports[1]
    assert reports[0]["first"]["kind"] == "alphago"


def test_searches_for_a_time_spend_it(policy: str, value: str) -> None:
    for argv in (["first.search=alphago", f"first.policy={policy}", f"first.value={value}"],
                 [f"first.checkpoint={policy}", "first.search=puct"]):
        parts = make_parts(compose(["games=4", *RANDOM, "first.seconds=0.05", *argv]), lambda: False)
        player: Any = parts.seats[0].player
        assert parts.games_at_once == 2
        assert "0.05 s of processor time" in parts.seats[0].detail
        assert parts.seats[0].metadata["seconds"] == 0.05
        analysis = player._all[0]
        analysis.start(replace(player._limits, to_the_end=True))
        analysis.wait()
        assert analysis.report().ended == "time"
        player.close()


def test_players_may_see_other_planes(tmp_path: Path) -> None:
    first = weights_file(tmp_path, "first", Game("go", {"size": 5, "planes": "tutorial"}), 1)
    second = weights_file(tmp_path, "second", Game("go", {"size": 5}), 2)
    for search in ("policy_only", "puct"):
        report = run(compose(["games=4", f"first.checkpoint={first}", f"second.checkpoint={second}", "actors.count=2",
                              f"search={search}", "search.simulations=10"]), False)
        assert report["games"] == 4
    report = run(compose(["games=2", f"first.value={first}", "first.search=alphago", *FEW, "actors.count=1",
                          f"second.checkpoint={second}", "second.search=puct", "second.search.simulations=10"]), False)
    assert report["games"] == 2


def test_a_policy_of_48_planes_plays_with_a_value_network_of_49(tmp_path: Path) -> None:
    policy = weights_file(tmp_path, "policy", Game("go", {"size": 5, "planes": "alphago"}), 1)
    value = weights_file(tmp_path, "value", Game("go", {"size": 5, "planes": "alphago_value"}), 2)
    other = weights_file(tmp_path, "other", Game("go", {"size": 5}), 3)
    players = [f"first.policy={policy}", f"first.value={value}", f"second.checkpoint={other}", *FEW, "actors.count=2"]
    report = run(compose(["games=4", "first.search=alphago", *players, "second.search=policy_only"]), False)
    assert report["games"] == 4
    with pytest.raises(UsageError, match=r"first.policy=\S+: sees game.planes=alphago_value, and first.value=\S+ sees "
                                         r"game.planes=alphago; name"):
        match("first.search=alphago", f"first.policy={value}", f"first.value={policy}")


@pytest.mark.parametrize(("argv", "text"), [
    (["first.search=alphago", "first.search.rollout_share=1.5"],
     "first.search.rollout_share=1.5: must be at least 0 and at most 1"),
    (["first.search=alphago", "first.search.rollout_share=-0.1"],
     "first.search.rollout_share=-0.1: must be at least 0 and at most 1"),
    (["first.search=alphago", "first.search.expand_after=0"],
     "first.search.expand_after=0: must be at least 1 and at most 1048576, or auto"),
    (["first.search=alphago", "first.search.value_after=41"],
     "first.search.value_after=41: a leaf has children after first.search.expand_after=40 rollouts"),
    (["first.search=alphago", "first.search.expand_after=auto", "first.search.rollout_share=0"],
     "first.search.expand_after=auto: weighs networks against rollouts"),
    (["first.search=alphago"], "first.search.rollout_share=0.5: asks a value network; name first.value=RUN_DIR|FILE"),
    (["first.search=alphago", "first.value=VALUE", "first.search.rollout_share=1"],
     "first.search.rollout_share=1 asks no value network; leave one of them out"),
    (["first.policy=POLICY", "first.search=puct"], "first.search.policy=puct: asks one network, first.checkpoint"),
    (["first.engine=random", "first.policy=POLICY"], "is of first.search=alphago, and first.engine=random"),
    (["first.engine=mcts", "first.seconds=1"], "first.engine=mcts has none; leave it out"),
    (["first.checkpoint=POLICY", "first.search=gumbel", "first.seconds=1"],
     "first.seconds=1: gumbel makes a fixed number of simulations"),
    (["first.seconds=-1", "first.checkpoint=POLICY"], "first.seconds=-1.0: must be at least 0"),
    (["first.search=alphago", "first.policy=nowhere", "first.value=VALUE"], "first.policy=nowhere: no such file"),
])
def test_what_cannot_be_is_one_line(argv: list[str], text: str, policy: str, value: str) -> None:
    argv = [word.replace("POLICY", policy).replace("VALUE", value) for word in argv]
    with pytest.raises(UsageError) as error:
        match(*argv)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_two_networks_have_one_game_and_planes_that_go_together(tmp_path: Path) -> None:
    files = {name: weights_file(tmp_path, name, Game("go", params), 1) for name, params in
             {"zero": {"size": 5}, "tutorial": {"size": 5, "planes": "tutorial"}, "larger": {"size": 7}}.items()}
    search = ["first.search=alphago", f"first.policy={files['zero']}"]
    with pytest.raises(UsageError, match=r"first.policy=\S+: sees game.planes=zero, and first.value=\S+ sees "
                                         r"game.planes=tutorial; name two networks of the same planes"):
        match(*search, f"first.value={files['tutorial']}")
    with pytest.raises(UsageError, match=r"first.value=\S+: plays go .*size=7.*, and first.policy=\S+ plays go"):
        match(*search, f"first.value={files['larger']}")


def test_a_rollout_file_of_another_board_is_refused(tmp_path: Path, value: str) -> None:
    training = RolloutTraining(Game("go", {"size": 7}))
    training.add(np.array([10, 20, 30], np.uint16), np.ones(3, np.float32))
    training.begin(1)
    training.learn(0.5, 1)
    file = tmp_path / "go_7x7.rollout"
    file.write_bytes(training.file("three moves"))
    alone = ["first.search=alphago", "first.search.rollout_share=1", *FEW, f"first.rollout={file}", "game=go"]
    report = match(*alone, "game.size=7")
    assert report["games"] == 4
    with pytest.raises(UsageError, match=r"search.rollout=\S+: is of go \S+, the game is go \S+; train one for it"):
        match(*alone, "game.size=5")
    with pytest.raises(UsageError, match=r"search.rollout=\S+: connect_four has no rollout policy; leave it out"):
        match("first.search=alphago", f"first.value={value}", f"first.rollout={file}")
    with pytest.raises(UsageError, match=r"search.rollout=nowhere: cannot be read; name a file that shusaku rollout"):
        match(*alone[:-2], "first.rollout=nowhere", "game=go", "game.size=7")


def test_engines_take_two_networks(policy: str, value: str) -> None:
    config = compose(["search=alphago", f"engine.policy={policy}", f"engine.value={value}", "engine.threads=2"])
    opened = open_analysis(config)
    opened.analysis.start(Limits(simulations=300, to_the_end=True))
    opened.analysis.wait()
    assert opened.analysis.report().simulations >= 300
    assert not opened.analysis.has_virtual_loss
    opened.analysis.close()
    with pytest.raises(UsageError, match="checkpoint= is missing"):
        open_analysis(Config(search=AlphaGoConfig(rollout_share=1.0)))


def test_self_play_refuses_it() -> None:
    for argv in (["search=alphago"], ["search=alphago", "learner.enabled=false"]):
        with pytest.raises(UsageError, match=r"^search.policy=alphago: searches one position at a time, for play"):
            compose(["game=connect_four", *argv])
    with pytest.raises(ValueError, match="searches one position at a time"):
        search_positions(Game("connect_four"), [Game("connect_four").start()], AlphaGoConfig(),
                         UniformEvaluator(Game("connect_four"), 1))


@pytest.mark.parametrize("networks", ["policy value", "value", "policy"])
def test_commands_that_ask_the_networks_directly_have_what_these_know(networks: str) -> None:
    """As `kata-raw-nn` and `final_score` of gtp do."""
    share = [] if "value" in networks else ["search.rollout_share=1"]
    opened = open_analysis(compose(["game=connect_four", "search=alphago", "engine.threads=1", *share,
                                    *(f"engine.{name}=shipped" for name in networks.split())]))
    try:
        values, policies = evaluate_positions(opened.game, [opened.game.start()], opened.evaluators[0])
        assert policies.sum() == pytest.approx(1, abs=1e-5)
        assert (np.ptp(policies) > 1e-4) == ("policy" in networks)
        assert (values[0] != 0) == ("value" in networks)
    finally:
        opened.analysis.close()


def test_gtp_takes_the_shipped_network_of_go() -> None:
    opened = open_analysis(compose(["search=alphago", "checkpoint=shipped", "engine.threads=1"]), "go")
    try:
        assert opened.game.name == "go"
    finally:
        opened.analysis.close()


def test_evaluate_has_no_networks_for_this_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", "checkpoint=shipped", "search=alphago"]) == 2
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert out == ""
    assert "search=alphago: " in line
    assert "shusaku match" in line
