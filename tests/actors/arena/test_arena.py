"""Pairs of games, openings, players without an engine."""

from collections.abc import Sequence

import numpy as np
import pytest
from scripted_evaluator import ScriptedEvaluator

from shusaku.actors.arena.arena import Arena, FinishedGame, MatchResult, openings
from shusaku.actors.arena.elo import estimate_elo
from shusaku.actors.arena.players import Forfeit, OpenGame, Player, RandomPlayer, SearchPlayer
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator, UniformEvaluator
from shusaku.common._core import Game
from shusaku.common.config.search import MctsConfig, PuctConfig, SearchConfig, make_search
from shusaku.common.errors import UsageError

PUCT = PuctConfig(simulations=32)


def uct(game: Game, rollouts: int, seed: int, threads: int = 2, at_once: int = 64) -> SearchPlayer:
    evaluators = [UniformEvaluator(game, 1) for _ in range(threads)]
    search = MctsConfig(simulations=rollouts)
    return SearchPlayer("uct", game, search, evaluators, games_at_once=at_once, seed=seed)


def puct(game: Game, threads: int = 2, search: SearchConfig = PUCT) -> SearchPlayer:
    """A player that draws nothing at random."""
    evaluators = [PseudoRandomEvaluator(game, 64) for _ in range(threads)]
    return SearchPlayer("puct", game, search, evaluators, games_at_once=64, seed=1)


def meet(game: Game, first: Player, second: Player, games: int = 40, plies: int = 4, seed: int = 1) -> MatchResult:
    arena = Arena(game, (first, second), games=games, opening_plies=plies, seed=seed, games_at_once=64)
    try:
        return arena.play()
    finally:
        first.close()
        second.close()


def facts(result: MatchResult) -> list[tuple[int, float, tuple[str, ...]]]:
    return sorted((game.number, game.points, game.moves) for game in result.games)


def test_the_same_seed_is_the_same_match() -> None:
    game = Game("connect_four")
    results = [meet(game, uct(game, 50, 3), RandomPlayer(seed=4), seed=seed) for seed in (1, 1, 2)]
    assert facts(results[0]) == facts(results[1])
    assert facts(results[0]) != facts(results[2])


def test_a_game_does_not_depend_on_the_games_beside_it() -> None:
    game = Game("connect_four")
    many = Arena(game, (uct(game, 50, 3), RandomPlayer(seed=4)), games=20, opening_plies=4, seed=1, games_at_once=20)
    few = Arena(game, (uct(game, 50, 3, 1, 3), RandomPlayer(seed=4)), games=20, opening_plies=4, seed=1,
                games_at_once=3)
    assert facts(many.play()) == facts(few.play())


def test_pairs_share_an_opening_and_swap_sides() -> None:
    game = Game("connect_four")
    result = meet(game, uct(game, 20, 3), RandomPlayer(seed=4), games=60, plies=5)
    games = {finished.number: finished for finished in result.games}
    assert sorted(games) == list(range(60))
    seen = set()
    for number in range(0, 60, 2):
        one, other = games[number], games[number + 1]
        assert one.moves[:5] == other.moves[:5]
        assert (one.side, other.side) == (0, 1)
        seen.add(one.moves[:5])
    assert len(seen) == 30, "every pair has an opening of its own"


def test_openings_leave_the_game_open_and_repeat_only_when_they_must() -> None:
    game = Game("tic_tac_toe")
    iterator = openings(game, 1, 1)
    first = [tuple(next(iterator)) for _ in range(12)]
    assert len(set(first[:9])) == 9, "there are nine, and all of them come before one comes again"
    for opening, _ in zip(openings(game, 6, 1), range(50), strict=False):
        position = game.start()
        for action in opening:
            position.play(action)
        assert not position.is_terminal
    with pytest.raises(UsageError, match=r"match.opening_plies=9.*ask for fewer"):
        next(openings(game, 9, 1))
    assert list(next(openings(game, 0, 1))) == []


def test_a_pair_that_repeats_another_is_no_second_sample() -> None:
    """Tic-tac-toe has nine first moves: of 40 pairs of players that draw nothing nine are samples."""
    game = Game("tic_tac_toe")
    result = meet(game, puct(game), uct(game, 30, 3, 1), games=80, plies=1)
    pairs = result.pairs()
    assert len(pairs) == 40
    new = result.new_pairs(pairs)
    assert sum(result.pair_outcomes()) == len(new)
    assert result.elo() == estimate_elo(list(new.values()))
    same = meet(game, puct(game), puct(game), games=80, plies=1)
    assert sum(same.pair_outcomes()) == 9
    assert same.tally().games == 80


def test_two_players_who_are_the_same_are_exactly_even() -> None:
    game = Game("connect_four")
    result = meet(game, puct(game), puct(game), games=100)
    tally, as_first, as_second = result.tally(), result.tally(0), result.tally(1)
    assert tally.wins == tally.losses
    assert (as_first.wins, as_first.draws, as_first.losses) == (as_second.losses, as_second.draws, as_second.wins)
    assert result.elo().elo == 0
    games = {finished.number: finished.moves for finished in result.games}
    assert all(games[number] == games[number + 1] for number in range(0, 100, 2))


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four"])
def test_search_beats_chance_from_either_side(name: str) -> None:
    game = Game(name)
    result = meet(game, uct(game, 400, 3), RandomPlayer(seed=4), games=100, plies=2)
    assert result.tally().score > 0.85
    assert min(result.tally(0).score, result.tally(1).score) > 0.75
    mirrored = meet(game, RandomPlayer(seed=3), uct(game, 400, 4), games=100, plies=2)
    assert mirrored.tally().score < 0.15
    assert result.elo().low > 200
    assert mirrored.elo().high < -200


def test_more_rollouts_are_stronger() -> None:
    game = Game("connect_four")
    result = meet(game, uct(game, 400, 3), uct(game, 40, 4), games=100)
    assert result.elo().low > 0


@pytest.mark.parametrize("policy", ["puct", "gumbel"])
def test_networks_play_without_chance(policy: str) -> None:
    game = Game("tic_tac_toe")
    search = make_search(policy, simulations=16, noise=policy == "puct")
    results = [meet(game, puct(game, search=search), puct(game, threads=1, search=search), seed=5) for _ in range(2)]
    assert facts(results[0]) == facts(results[1])


def test_the_network_is_asked() -> None:
    """One that is sure of the first column plays there for as long as it can."""
    game = Game("connect_four")
    sure = np.array([9, 0, 0, 0, 0, 0, 0], np.float32)
    player = SearchPlayer(
        "sure", game, PUCT, [ScriptedEvaluator(game, lambda observation: (sure, 0.0))], games_at_once=8, seed=1
    )
    position = game.start()
    assert player.choose([OpenGame(0, position), OpenGame(1, position)]) == [0, 0]
    player.close()


class Scripted:
    """Plays the first legal action, and gives up or stops at a ply."""

    def __init__(self, gives_up_at: int = 99) -> None:
        self.name = "scripted"
        self.ended: list[int] = []
        self._at = gives_up_at

    def choose(self, games: Sequence[OpenGame]) -> list[int | Forfeit]:
        return [
            Forfeit("crash", "because") if len(game.actions) >= self._at else game.position.legal_actions[0]
            for game in games
        ]

    def end(self, game: OpenGame) -> None:
        self.ended.append(game.number)

    def close(self) -> None:
        pass


def test_who_gives_up_has_lost() -> None:
    game = Game("connect_four")
    first, second = Scripted(), Scripted(gives_up_at=4)
    result = meet(game, first, second, games=10, plies=0)
    assert result.tally().wins == 10
    assert (result.forfeits(0), result.forfeits(1)) == ({}, {"crash": 10})
    assert {game.message for game in result.games} == {"because"}
    assert sorted(first.ended) == sorted(second.ended) == list(range(10))
    mirrored = meet(game, Scripted(gives_up_at=4), Scripted(), games=10, plies=0)
    assert mirrored.tally().losses == 10
    assert mirrored.forfeits(0) == {"crash": 10}


def test_a_match_that_is_stopped_keeps_what_is_finished() -> None:
    game = Game("connect_four")
    finished = []
    arena = Arena(
        game, (uct(game, 50, 1), RandomPlayer(seed=2)), games=60, opening_plies=4, seed=1, games_at_once=4,
        should_stop=lambda: len(finished) >= 10, on_game=finished.append,
    )
    result = arena.play()
    assert 10 <= len(result.games) < 20
    assert result.elo().low < result.elo().elo


@pytest.mark.parametrize("games", [0, 1, 7, -2])
def test_odd_numbers_of_games_are_refused(games: int) -> None:
    game = Game("tic_tac_toe")
    with pytest.raises(UsageError, match=f"games={games}: must be an even number"):
        Arena(game, (Scripted(), Scripted()), games=games, opening_plies=0, seed=1, games_at_once=1)


def test_a_pair_counts_only_after_all_before_it() -> None:
    def game(number: int, points: float) -> FinishedGame:
        return FinishedGame(number, number % 2, points, (), (number,), "rules")

    result = MatchResult([game(2, 1.0), game(3, 0.5), game(0, 1.0)])
    assert result.pair_outcomes() == [0, 0, 0, 0, 0]
    assert result.whole_pairs() == {}
    result.games.append(game(1, 0.0))
    assert result.whole_pairs() == {0: [1.0, 0.0], 1: [1.0, 0.5]}
    assert result.pair_outcomes() == [0, 0, 1, 1, 0]


def test_a_decided_match_ends() -> None:
    game = Game("tic_tac_toe")
    players = RandomPlayer(seed=1), RandomPlayer(seed=2)
    arena = Arena(game, players, games=40, opening_plies=2, seed=1, games_at_once=4,
                  is_decided=lambda result: len(result.games) >= 6)
    assert 6 <= len(arena.play().games) <= 9
    assert not arena.step()
