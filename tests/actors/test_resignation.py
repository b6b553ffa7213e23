"""What is known of resignation outside the core: one number for many batches, kept when games begin anew."""

import pytest

from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import EndedBy
from shusaku.common.resignation import NEVER_RESIGN, typical_resign_value

GAME = Game("tic_tac_toe")
SETTINGS = {"games": 8, "seed": 3, "identity": ActorIdentity(0)}
# Without games that are played to the end the threshold stays what it was at the start.
RESIGNS = SelfPlayConfig(resign_errors=0.1, never_resign_share=1e-9)


@pytest.mark.parametrize(("values", "typical"), [
    ([], NEVER_RESIGN), ([-1.0, -1.0], NEVER_RESIGN), ([-1.0, -0.9], -0.9), ([-0.9, -0.7, -0.8], -0.8),
])
def test_batches_that_have_no_threshold_yet_do_not_count(values: list[float], typical: float) -> None:
    assert typical_resign_value(iter(values)) == typical


def test_a_player_begins_with_the_threshold_of_before_and_keeps_it_when_games_begin_anew() -> None:
    evaluate = PseudoRandomEvaluator(GAME, 8)
    player = SelfPlay(GAME, PuctConfig(simulations=1), RESIGNS, evaluate, resign_value=-0.75, **SETTINGS)
    for _ in range(2):
        assert player.resign_value == -0.75
        resigned = [r for r in player.play(400) if r.ended_by == EndedBy.RESIGNATION]
        assert resigned
        assert max(float(r.root_values[-1]) for r in resigned) < -0.75
        player.begin_anew(player.sequence)


def test_a_snapshot_brings_its_own_threshold() -> None:
    evaluate = PseudoRandomEvaluator(GAME, 8)
    one, other = (SelfPlay(GAME, PuctConfig(simulations=1), RESIGNS, evaluate, resign_value=value, **SETTINGS)
                  for value in (-0.75, -0.875))
    other.restore(one.snapshot())
    assert other.resign_value == -0.75


def test_both_groups_of_a_pipeline_begin_with_the_threshold() -> None:
    class Split:
        version = 1
    player = PipelinedSelfPlay(GAME, PuctConfig(simulations=1), RESIGNS, Split(), resign_value=-0.75, **SETTINGS)
    assert player.resign_value == -0.75
    assert [group.resign_value for group in player._groups] == [-0.75, -0.75]
