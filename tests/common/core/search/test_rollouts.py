"""Rollouts: uniform ones, and Go's rollout policy against a slow reference (tests/fixtures/reference_rollout.py)."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import reference_rollout as reference
from search_fixtures import random_positions, search_all

from shusaku.common._core import Game, Position, Rollouts, RolloutTraining, describe_rollout
from shusaku.common.config.search import MctsConfig, make_search
from shusaku.common.errors import UsageError
from shusaku.deploy.run.game_parameters import check_search

SIZES = (5, 9, 13)


def go(size: int, **params: int | float | str) -> Game:
    return Game("go", {"size": size, **params})


def keys_by_action(rollouts: Rollouts, position: Position) -> dict[int, set[int]]:
    actions, offsets, keys = rollouts.candidates(position)
    return {int(action): set(keys[begin:end].tolist())
            for action, (begin, end) in zip(actions, pairwise(offsets.tolist()), strict=True)}


def games_of(size: int, count: int, seed: int) -> list[np.ndarray]:
    """Random games of moves that a rollout may choose, and of a few others."""
    rng, rollouts, found = np.random.default_rng(seed), Rollouts(go(size)), []
    for _ in range(count):
        position, moves = go(size).start(), []
        while not position.is_terminal and len(moves) < 9 * size:
            choices = rollouts.candidates(position)[0].tolist() if rng.random() < 0.9 else position.legal_actions
            moves.append(int(rng.choice(choices or position.legal_actions)))
            position.play(moves[-1])
        found.append(np.array(moves, np.uint16))
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """A policy for each size, learned fast from a few random games: its weights are anything but equal."""
    found = {}
    for size in SIZES:
        training = RolloutTraining(go(size))
        for moves in games_of(size, 12, seed=3):
            training.add(moves, np.ones(len(moves), np.float32))
        training.begin(2)
        training.learn(0.7, 3)
        path = tmp_path_factory.mktemp("rollouts") / f"{size}.rollout"
        path.write_bytes(training.file("random games"))
        found[size] = str(path)
    return found


def weights_of(file: str) -> dict[int, float]:
    found = describe_rollout(Path(file).read_bytes())
    return dict(zip(found["keys"].tolist(), found["weights"].tolist(), strict=True))


@pytest.mark.parametrize(("size", "games"), [(5, 12), (9, 6), (13, 2), pytest.param(9, 12, marks=pytest.mark.long),
                                             pytest.param(13, 6, marks=pytest.mark.long)])
def test_features_are_those_of_the_slow_reference(size: int, games: int) -> None:
    game, rng = go(size), np.random.default_rng(size)
    rollouts, kinds, kos, positions = Rollouts(game), set[int](), 0, 0
    for _ in range(games):
        for position, situation in reference.positions_of(game, size, rng, 8 * size):
            found = keys_by_action(rollouts, position)
            assert found == situation.candidates(), str(position)
            kinds |= {key >> 56 for features in found.values() for key in features}
            kos += situation.ko() is not None
            positions += 1
    assert kinds >= {1, 2, 3, 4}
    assert kos > 0
    assert positions > 100


def test_the_middle_of_three_taken_stones_is_nakade() -> None:
    game = go(5)
    position, situation = reference.situation_after(game.position("OOO../XXX../...../...../..... X"), 3, 5)
    found = keys_by_action(Rollouts(game), position)
    assert found == situation.candidates()
    assert [action for action, keys in found.items() if reference.NAKADE in keys] == [1]


@pytest.mark.parametrize("symmetry", range(8))
def test_features_are_the_same_in_every_view_and_with_colours_exchanged(symmetry: int) -> None:
    game = go(9)
    rollouts, moves = Rollouts(game), games_of(9, 1, symmetry)[0][:60]
    position, view = game.start(), game.start()
    swapped = game.start()
    swapped.play(81)
    for move in moves.tolist():
        for other in (view, swapped):
            turn = (lambda a: game.permute_action(symmetry, a)) if other is view else (lambda a: a)
            if other is not swapped or other.ply > 1:  # at first its last move is the pass
                expected = {turn(action): keys for action, keys in keys_by_action(rollouts, position).items()}
                assert keys_by_action(rollouts, other) == expected
            other.play(turn(move))
        position.play(move)


@pytest.mark.parametrize("size", SIZES)
def test_priors_are_the_softmax_of_the_reference(size: int, files: dict[int, str]) -> None:
    game, rng = go(size), np.random.default_rng(10 + size)
    weights, rollouts = weights_of(files[size]), Rollouts(game, files[size])
    for position, situation in reference.positions_of(game, size, rng, 7 * size):
        chances, legal = situation.probabilities(weights), position.legal_actions
        others = sum(action not in chances for action in legal)
        total = sum(chances.get(action, 0) for action in legal)  # superko forbids some
        share = (reference.OTHERS if total else 1) if others else 0
        wanted = [chances[a] / total * (1 - share) if a in chances else share / others for a in legal]
        np.testing.assert_allclose(rollouts.priors(position), wanted, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(("size", "games"), [(5, 40), (9, 5), pytest.param(5, 60, marks=pytest.mark.long),
                                             pytest.param(9, 6, marks=pytest.mark.long)])
def test_every_move_of_rollouts_has_the_chance_of_the_reference(size: int, games: int, files: dict[int, str]) -> None:
    """What a rollout keeps up to date stone by stone must not drift from what the stones say."""
    game = go(size, superko="simple")
    weights, rollouts = weights_of(files[size]), Rollouts(game, files[size])
    top = expected = spread = places = moves_seen = 0.0
    for seed in range(games):
        position = game.start()
        situation = reference.Situation(reference.Board.of(position), 0)
        outcome, moves = rollouts.play(position, seed)
        for move in moves.tolist():
            chances = situation.probabilities(weights)
            if not chances:
                assert move == size * size
            else:
                assert move in chances, str(position)
                best = max(chances, key=lambda action: chances[action])
                top += move == best
                expected += chances[best]
                spread += chances[best] * (1 - chances[best])
                # Uniform on [0, 1] in the mean: what lies before the move in the order of chances, and half of its own.
                places += sum(c for c in chances.values() if c < chances[move]) + 0.5 * sum(
                    c for c in chances.values() if c == chances[move])
                moves_seen += 1
            position, situation = reference.situation_after(position, move, size)
        assert position.is_terminal
        assert outcome == (position.outcome if position.to_play == 0 else -position.outcome)
    assert moves_seen > 500
    assert abs(top - expected) < 4 * math.sqrt(spread)
    assert abs(places / moves_seen - 0.5) < 4 * math.sqrt(1 / 12 / moves_seen)


def test_a_rollout_from_the_middle_goes_on_from_there(files: dict[int, str]) -> None:
    game, rng = go(9, superko="simple"), np.random.default_rng(5)
    rollouts = Rollouts(game, files[9])
    for position, _ in list(reference.positions_of(game, 9, rng, 70))[::7]:
        outcome, moves = rollouts.play(position, 1)
        assert rollouts.play(position, 1)[1].tolist() == moves.tolist()
        end = position.copy()
        for move in moves.tolist():
            end.play(move)  # legal
        assert end.is_terminal
        assert outcome == (end.outcome if end.to_play == position.to_play else -end.outcome)


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello", "hex"])
def test_without_a_policy_rollouts_are_uniform(name: str) -> None:
    game = Game(name)
    rollouts = Rollouts(game)
    position = random_positions(game, 1, seed=4)[0]
    legal = position.legal_actions
    assert rollouts.priors(position).tolist() == pytest.approx([1 / len(legal)] * len(legal))
    firsts = np.bincount([legal.index(int(rollouts.play(position, seed)[1][0])) for seed in range(2000)],
                         minlength=len(legal))
    assert np.sum((firsts - 2000 / len(legal)) ** 2) / (2000 / len(legal)) < 3 * len(legal) + 20  # chi square


def test_plain_uct_takes_the_values_of_the_policy(files: dict[int, str]) -> None:
    game = go(9)
    position = game.start()
    plain = search_all(game, [position], MctsConfig(simulations=200, temperature=0), [1])[0]
    guided = search_all(game, [position], MctsConfig(simulations=200, temperature=0, rollout=files[9]), [1])[0]
    again = search_all(game, [position], MctsConfig(simulations=200, temperature=0, rollout=files[9]), [1])[0]
    assert guided.visits.tolist() == again.visits.tolist()
    assert guided.q_values.tolist() != plain.q_values.tolist()


def test_moves_without_weight_are_not_learned_from() -> None:
    game, (moves,) = go(9), games_of(9, 1, seed=8)
    weights = np.ones(len(moves), np.float32)
    weights[:20] = 0
    files, found = [], []
    pairs = moves[:16].reshape(8, 2)  # the same boards and last moves from ply 20 on
    for first in (moves, [*pairs[::-1].ravel(), *moves[16:]]):
        training = RolloutTraining(game)
        training.add(np.array(first, np.uint16), weights)
        training.begin(1)
        found.append(training.learn(0.5, 1))
        files.append(training.file(""))
    assert found[0]["positions"] + found[0]["others"] == len(moves) - 20
    assert found[0] == found[1]
    assert files[0] == files[1]


def test_training_takes_the_steps_of_adagrad() -> None:
    """One game, one pass: the same weights from a reference in double precision, and the same fit."""
    game, moves = go(9), games_of(9, 2, seed=8)
    training = RolloutTraining(game)
    for number in (0, 1):
        training.add(moves[number], np.ones(len(moves[number]), np.float32), unseen=number == 1)
    training.begin(3)
    start = describe_rollout(training.file(""))
    known = dict.fromkeys(start["keys"].tolist(), 0.0)
    assert not start["weights"].any()
    rollouts, counts = Rollouts(game), dict[int, int]()
    for position, _ in replayed(game, moves[0]):
        for keys in keys_by_action(rollouts, position).values():
            for key in keys:
                counts[key] = counts.get(key, 0) + 1
    assert known.keys() == {key for key, seen in counts.items() if seen >= 3}
    squares = dict.fromkeys(known, 0.0)
    losses, others = [], 0
    for position, move in replayed(game, moves[0]):
        found = keys_by_action(rollouts, position)
        if move not in found:
            others += 1
            continue
        chances = softmax(found, known)
        losses.append(-math.log(chances[move]))
        for action, keys in found.items():
            gradient = (action == move) - chances[action]
            for key in sorted(keys & known.keys()):
                squares[key] += gradient**2
                known[key] += 0.3 * gradient / (math.sqrt(squares[key]) + 1e-6)
    fit = training.learn(0.3, 0)
    assert (fit["positions"], fit["others"]) == (len(losses), others)
    assert fit["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    learned = describe_rollout(training.file("a note"))
    np.testing.assert_allclose(learned["weights"], [known[key] for key in learned["keys"].tolist()], atol=2e-3)
    assert (learned["game"], learned["board"], learned["note"]) == ("go", "9x9", "a note")

    unseen = [(softmax(found, known), move) for position, move in replayed(game, moves[1])
              if move in (found := keys_by_action(rollouts, position))]
    fit = training.measure()
    assert fit["positions"] == len(unseen)
    assert fit["loss"] == pytest.approx(np.mean([-math.log(chances[move]) for chances, move in unseen]), rel=1e-3)
    for name, first in (("top1", 1), ("top5", 5)):  # moves of one score may stand in any order
        least, most = (np.mean([sum(chance > chances[move] * (1 + tie) for action, chance in chances.items()
                                    if action != move) < first for chances, move in unseen]) for tie in (-1e-6, 1e-6))
        assert least - 1e-9 <= fit[name] <= most + 1e-9
        assert 0 < most < 1


def replayed(game: Game, moves: np.ndarray) -> list[tuple[Position, int]]:
    position, found = game.start(), []
    for move in moves.tolist():
        found.append((position.copy(), move))
        position.play(move)
    return found


def softmax(found: dict[int, set[int]], weights: dict[int, float]) -> dict[int, float]:
    scores = {action: math.exp(sum(weights.get(key, 0) for key in keys)) for action, keys in found.items()}
    return {action: score / sum(scores.values()) for action, score in scores.items()}


def test_the_same_games_and_seed_give_the_same_file() -> None:
    def learn(seed: int) -> bytes:
        training = RolloutTraining(go(5))
        for moves in games_of(5, 6, seed=1):
            training.add(moves, np.ones(len(moves), np.float32))
        training.begin(1)
        losses = [training.learn(0.2, seed + number)["loss"] for number in range(3)]
        assert losses[2] < losses[0]
        return training.file("")

    assert learn(1) == learn(1)
    assert learn(1) != learn(2)


def test_an_illegal_move_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the move of ply 1 is illegal$"):
        RolloutTraining(go(9)).add(np.array([3, 3], np.uint16), np.ones(2, np.float32))
    with pytest.raises(ValueError, match=r"^game hex has no rollout policy to learn; its rollouts are uniform$"):
        RolloutTraining(Game("hex"))


def refused(game: Game, file: object) -> str:
    with pytest.raises(UsageError) as error:
        check_search(game, make_search("mcts", rollout=str(file)))
    return str(error.value)


def test_a_file_that_does_not_fit_is_refused_in_one_line(files: dict[int, str], tmp_path: Path) -> None:
    nine = files[9]
    check_search(go(9, komi=5.5), make_search("mcts", rollout=nine))
    assert refused(go(13), nine) == (f"search.rollout={nine}: is of go 9x9, the game is go 13x13; train one for it "
                                     "with shusaku rollout")
    assert refused(Game("hex"), nine) == (f"search.rollout={nine}: hex has no rollout policy; leave it out: rollouts "
                                          "are uniform then")
    assert refused(go(9), tmp_path / "none") == (f"search.rollout={tmp_path}/none: cannot be read; name a file that "
                                                 "shusaku rollout has written")
    data = bytearray(Path(nine).read_bytes())
    for name, change, problem in (
        ("text", b"(;FF[4])", "is no file of a rollout policy"),
        ("cut", bytes(data[:-20]), "is damaged: its checksum differs"),
        ("bit", bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:]), "is damaged: its checksum differs"),
    ):
        (tmp_path / name).write_bytes(change)
        assert refused(go(9), tmp_path / name) == (f"search.rollout={tmp_path}/{name}: {problem}; name a file that "
                                                   "shusaku rollout has written")
