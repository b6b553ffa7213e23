"""The committed games of GNU Go: what our reader takes from them, against slow Go, and that a policy is learned."""

import math
import re
from pathlib import Path

import pytest
from expert_games import SAMPLE, write_gnugo_games
from reference_go import ReferenceGo

from shusaku.common._core import Game
from shusaku.common.codec import decode_record
from shusaku.common.config.schema import Config, DatasetConfig, LearnerConfig, NetworkConfig
from shusaku.common.messages import EndedBy, RowKind
from shusaku.common.network.network import Network
from shusaku.common.network.targets import make_targets
from shusaku.deploy.cli.main import main
from shusaku.learner.dataset import open_dataset
from shusaku.learner.learner import Learner
from shusaku.learner.unseen_games import UnseenGames
from shusaku.replay.dataset import Dataset
from shusaku.replay.record_log import RecordLog

LEVEL = re.compile(r"SO\[level (\d+), ")
RANDOM = re.compile(r"GC\[(\d) random plies\]")
RESULT = re.compile(r"RE\[(0|[BW]\+[\d.]+)\]")
MOVE = re.compile(r";([BW])\[(\w*)\]")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The SGF file and the record log of its games."""
    folder = tmp_path_factory.mktemp("gnugo")
    file = write_gnugo_games(folder)
    assert main(["records", "import", f"records.file={file}", f"records.out={folder / 'log'}", "game=go",
                 "game.size=9"]) == 0
    return file, folder / "log"


def test_the_sample_is_as_large_and_as_mixed_as_it_is_said(sample: tuple[Path, Path]) -> None:
    lines = sample[0].read_text(encoding="ascii").splitlines()
    assert SAMPLE.stat().st_size <= 200_000
    assert len(lines) == 2000
    levels = [int(found[1]) for line in lines if (found := LEVEL.search(line))]
    assert len(levels) == len(lines)
    assert {*levels} == {*range(1, 11)}
    assert sum(level <= 3 for level in levels) / len(lines) > 0.75
    plies = {int(found[1]) for line in lines if (found := RANDOM.search(line))}
    assert plies == {*range(2, 9)}


def test_every_game_is_taken_as_it_was_played_and_counted(sample: tuple[Path, Path]) -> None:
    """Moves, legality, result and the end against slow Go with area counting, for every twentieth game."""
    played = sample[0].read_text(encoding="ascii").splitlines()
    lines = list({tuple(MOVE.findall(line)): line for line in played}.values())  # a game that comes again is left out
    records = [decode_record(data) for data in RecordLog(sample[1]).iterate()]
    assert len(records) == len(lines) > 1990
    for line, record in list(zip(lines, records, strict=True))[::20]:
        slow = ReferenceGo(9, komi=7.0, max_plies=Game("go", {"size": 9}).max_plies)
        moves = MOVE.findall(line)
        assert len(moves) == len(record)
        for ply, ((colour, point), action) in enumerate(zip(moves, record.actions.tolist(), strict=True)):
            assert colour == "BW"[ply % 2]
            assert action == (81 if point == "" else ord(point[0]) - 97 + 9 * (ord(point[1]) - 97))
            slow.play(action)  # which asserts that it is legal
        assert slow.is_terminal
        black = slow.score if len(moves) % 2 == 0 else -slow.score
        said = RESULT.search(line)
        assert said is not None
        assert black == (0 if said[1] == "0" else float(said[1][2:]) * (1 if said[1][0] == "B" else -1))
        assert (record.outcome, record.score) == ((black > 0) - (black < 0), black)
        assert record.ended_by == (EndedBy.PLY_LIMIT if slow.is_cut_off else EndedBy.RULES)
        assert set(record.kind) == {RowKind.IMPORTED}


@pytest.mark.usefixtures("one_thread")
def test_a_policy_is_learned_that_predicts_games_it_never_saw(sample: tuple[Path, Path]) -> None:
    """400 steps of a small network; one that knows nothing has a loss of ln 82 = 4.41 and 1.2 % of the moves."""
    game = Game("go", {"size": 9})
    config = Config(
        dataset=DatasetConfig(records=str(sample[1])), network=NetworkConfig(filters=16, blocks=2, policy_filters=4),
        learner=LearnerConfig(targets=["policy"], batch_size=64, learning_rate=0.005, ema_decay=0.9, warmup_steps=10))
    buffer, _ = open_dataset(config, game, threads=1)
    network = Network(game.observation_shape, game.num_actions, config.network, make_targets(config.learner))
    learner = Learner(network, game, config.learner)
    test = UnseenGames.of_part(game, config.network, Dataset(config.dataset.records, game)["test"], 1000)
    measured = []
    for step in range(401):
        if step in (0, 400):
            weights = learner.publish(step + 1)
            assert weights is not None
            measured.append(test.measure(weights))
        learner.step(buffer.sample(64, step))
    before, after = measured
    assert before["policy_loss"] == pytest.approx(math.log(82), abs=0.1)
    assert after["policy_loss"] < before["policy_loss"] - 0.4
    assert after["top_1"] > 0.1
    assert after["top_5"] > 0.2
