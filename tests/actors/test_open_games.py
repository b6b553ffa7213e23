"""An actor's open games: saved, restored, and refused if they are not its own or are damaged."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shusaku.actors.actor_loop import ActorLoop
from shusaku.actors.evaluators.dummies import PseudoRandomEvaluator
from shusaku.actors.open_games import FIRST_SECONDS, OpenGames
from shusaku.actors.pipelined_self_play import PipelinedSelfPlay
from shusaku.actors.self_play import ActorIdentity, SelfPlay
from shusaku.common._core import Game, RowRing
from shusaku.common.codec import CodecError
from shusaku.common.config.schema import SelfPlayConfig
from shusaku.common.config.search import PuctConfig
from shusaku.common.messages import Control, GameRecord, OpenGame
from shusaku.common.open_game_codec import decode_open_game, encode_open_game
from shusaku.replay.stream.client import ReplayUnavailable
from shusaku.replay.stream.open_games import MAX_TAKES, TakenGames
from shusaku.replay.validation import Validation

GAME, HASH = Game("connect_four"), "c0ffee"
SEARCH = PuctConfig(simulations=16)


def player(
    games: int = 6, incarnation: int = 0, game: Game = GAME, self_play: SelfPlayConfig | None = None, **more: Any
) -> SelfPlay:
    return SelfPlay(game, more.pop("search", SEARCH), self_play or SelfPlayConfig(), PseudoRandomEvaluator(game, games),
                    games=games, seed=incarnation + 1, identity=ActorIdentity(3, 2, incarnation), config_hash=HASH,
                    **more)


def play(who: SelfPlay | PipelinedSelfPlay, steps: int) -> list[GameRecord]:
    return [record for _ in range(steps) for record in who.step()]


class Store:
    """Keeps what was saved last."""

    def __init__(self, games: Mapping[str, bytes] | None = None) -> None:
        self.games, self.takes, self.sequence, self.is_away = dict(games or {}), 1, -1, False

    def take(self) -> TakenGames:
        if self.is_away:
            raise ReplayUnavailable("no answer")
        return TakenGames(dict(self.games), self.takes)

    def put(self, sequence: int, games: Mapping[str, bytes]) -> None:
        self.sequence, self.games = sequence, dict(games)


def open_games(
    store: Store, who: SelfPlay | PipelinedSelfPlay, *, game: Game = GAME, config_hash: str = HASH,
    clock: Callable[[], float] = lambda: 0.0,
) -> OpenGames:
    return OpenGames(who, Validation(game, config_hash), seconds=300, take=store.take, put=store.put,
                     clock=clock)


def saved(steps: int = 120, **options: Any) -> Store:
    """The store after an actor has played for so many steps."""
    store, first = Store(), player(**options)
    games = open_games(store, first, game=options.get("game", GAME))
    assert games.restore()
    play(first, steps)
    games.save()
    return store


def moves(record: GameRecord) -> list[int]:
    return record.actions.tolist()


@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("games", [3, 6, 9])
def test_a_successor_goes_on_where_they_were_saved(games: int, is_pipelined: bool) -> None:
    """With fewer games the longest go on; with more, new ones begin beside them.  Every record is valid."""
    store = saved()
    before = {name: decode_open_game(name, data).record for name, data in store.games.items()}
    second: SelfPlay | PipelinedSelfPlay = player(games, 1)
    if is_pipelined:
        evaluator = SplitEvaluator()
        second = PipelinedSelfPlay(GAME, SEARCH, SelfPlayConfig(), evaluator, games=games, seed=9,
                                   identity=ActorIdentity(3, 2, 1), config_hash=HASH)
    successor = open_games(store, second)
    assert successor.restore()
    kept = sorted(before, key=lambda name: len(before[name]), reverse=True)[:games]
    assert successor.metrics()["restored_games"] == len(kept) == min(games, len(before))
    assert successor.metrics()["dropped_games"] == len(before) - len(kept)
    records = play(second, 2500)
    ended = [record for record in records if record.open_id in before]
    assert sorted(record.open_id for record in ended) == sorted(kept), "each ends, and once"
    ring = RowRing(GAME, 10_000)
    for record in records:
        ring.append(record)
    for record in ended:
        begun = before[record.open_id]
        assert moves(record)[: len(begun)] == moves(begun)
        for name in ("root_values", "raw_values", "versions", "kind", "row_weight", "surprise"):
            assert getattr(record, name)[: len(begun)].tobytes() == getattr(begun, name).tobytes()
        assert record.game_id[:3] == (2, 3, 1)
        assert len(record) > len(begun)
    assert len({record.open_id for record in records}) == len(records)


class SplitEvaluator:
    """Answers at once; an evaluator in two halves."""

    def __init__(self) -> None:
        self._evaluate, self._answers = PseudoRandomEvaluator(GAME, 64), []  # type: ignore[var-annotated]

    @property
    def version(self) -> int:
        return self._evaluate.version

    def begin(self, leaves: Any) -> None:
        answer = self._evaluate(leaves)
        self._answers.append(replace(answer, logits=answer.logits.copy(), values=answer.values.copy()))

    def finish(self) -> Any:
        return self._answers.pop(0)


def test_a_game_of_its_own_komi_that_may_resign_and_branched_off_goes_on() -> None:
    game = Game("go", {"size": 5, "planes": "komi"})
    options: dict[str, Any] = {"game": game, "search": PuctConfig(simulations=8), "self_play": SelfPlayConfig(
        komi_stdev=2.0, resign_errors=0.05, fork_share=0.5, policy_plies=3.0)}
    store = saved(400, **options)
    found = {name: decode_open_game(name, data) for name, data in store.games.items()}
    assert len({open_game.record.params["komi"] for open_game in found.values()}) > 1
    assert any(open_game.may_resign for open_game in found.values())
    second = player(6, 1, **options)
    successor = open_games(store, second, game=game)
    assert successor.restore()
    assert successor.metrics()["dropped"] == ""
    again = {open_game.open_id: open_game for open_game in second.open_games()}
    for name, open_game in found.items():
        same = replace(again[name], record=replace(again[name].record, game_id=open_game.record.game_id))
        assert encode_open_game(same) == encode_open_game(replace(open_game, open_id=name))
    ended = [record for record in play(second, 4000) if record.open_id in found]
    assert {record.open_id for record in ended} == set(found)
    for record in ended:
        assert record.params == found[record.open_id].record.params


def test_other_settings_or_another_game_drop_them_with_one_line() -> None:
    store = saved()
    for game, config_hash, reason in (
        (GAME, "another", "other settings"), (Game("tic_tac_toe"), HASH, "this run plays tic_tac_toe"),
    ):
        second = player(6, 1, game)
        successor = open_games(store, second, game=game, config_hash=config_hash)
        assert successor.restore()
        metrics = successor.metrics()
        assert (metrics["restored_games"], metrics["dropped_games"]) == (0, len(store.games))
        assert reason in str(metrics["dropped"])
        assert "\n" not in str(metrics["dropped"])
        play(second, 10)


def test_games_that_may_end_the_actor_are_given_up() -> None:
    store = Store({"2.0.0.1": b"", "2.0.1.1": b""})
    store.takes = MAX_TAKES + 1
    successor = open_games(store, player())
    assert successor.restore()
    assert "2 open games were dropped: 4 actors in a row ended soon after" in str(successor.metrics()["dropped"])


def test_nothing_is_played_and_nothing_overwritten_before_the_replay_has_answered() -> None:
    store = saved()
    before = dict(store.games)
    store.is_away = True
    successor = open_games(store, player(6, 1))
    assert not successor.restore()
    successor.save()
    assert store.games == before
    store.is_away = False
    assert successor.restore()
    assert successor.restored == 6
    assert successor.restore()
    assert successor.restored == 6, "once"


def test_games_are_saved_soon_after_they_were_restored_and_then_at_intervals() -> None:
    store, now, who = Store(), [0.0], player()
    games = open_games(store, who, clock=lambda: now[0])
    games.restore()
    saves = []
    for second in range(1000):
        now[0] = float(second)
        store.sequence = -1
        games.save_if_due()
        if store.sequence >= 0:
            saves.append(second)
    assert saves[0] == FIRST_SECONDS
    assert all(240 <= later - one <= 361 for one, later in pairwise(saves))
    assert len(saves) >= 3


def test_a_game_without_a_search_is_not_worth_saving() -> None:
    who = player(self_play=SelfPlayConfig(random_plies=6))
    assert who.open_games() == []


def one_game() -> OpenGame:
    return max(player_after(120).open_games(), key=lambda game: len(game.record))


def player_after(steps: int) -> SelfPlay:
    who = player()
    play(who, steps)
    return who


def changed(open_game: OpenGame, **columns: Any) -> OpenGame:
    return replace(open_game, record=replace(open_game.record, **columns))


@pytest.mark.parametrize(("change", "reason"), [
    (lambda g: changed(g, actions=np.full_like(g.record.actions, 3)), "illegal"),
    (lambda g: changed(g, actions=np.full_like(g.record.actions, 60_000)), "illegal"),
    (lambda g: changed(g, root_values=np.full_like(g.record.root_values, np.nan)), "not finite"),
    (lambda g: changed(g, policy_shares=np.zeros_like(g.record.policy_shares)), "shares sum"),
    (lambda g: changed(g, game="go"), "this run plays"),
    (lambda g: changed(g, params={"komi": 7.5}), "this run plays with"),
])
def test_a_stranger_writes_a_game_that_breaks_the_rules(change: Any, reason: str) -> None:
    """With the right hash: it costs that game and nothing else."""
    bad, good = change(one_game()), saved()
    good.games[bad.open_id] = encode_open_game(bad)
    others = len(good.games) - 1
    successor = open_games(good, player(20, 1))
    assert successor.restore()
    assert successor.restored == others
    assert reason in str(successor.metrics()["dropped"])


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damaged_games_are_errors_and_nothing_else(data: st.DataObject) -> None:
    name, content = one_encoded()
    way = data.draw(st.sampled_from(("flip", "cut", "longer", "another name", "random")))
    if way == "flip":
        at = data.draw(st.integers(0, len(content) - 1))
        content = content[:at] + bytes([content[at] ^ (1 << data.draw(st.integers(0, 7)))]) + content[at + 1 :]
    elif way == "cut":
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    elif way == "longer":
        content += data.draw(st.binary(min_size=1, max_size=9))
    elif way == "another name":
        name = data.draw(st.sampled_from(("", "1.2.3", "1.2.3.4.5", name + "0", "a.b.c.d", "9" * 200)))
    else:
        content = b"open\x01" + data.draw(st.binary(max_size=99))
    with pytest.raises(CodecError):
        decode_open_game(name, content)


_ENCODED: list[tuple[str, bytes]] = []


def one_encoded() -> tuple[str, bytes]:
    if not _ENCODED:
        game = one_game()
        _ENCODED.append((game.open_id, encode_open_game(game)))
    return _ENCODED[0]


def test_the_core_refuses_what_is_not_a_game() -> None:
    """It checks by itself what memory safety needs, whoever calls it."""
    who, game = player(), one_game()
    record = game.record
    for bad in (
        replace(record, actions=np.append(record.actions, record.actions)),
        replace(record, policy_offsets=record.policy_offsets[:-1]),
        replace(record, policy_offsets=record.policy_offsets + np.uint32(1)),
        replace(record, policy_shares=record.policy_shares[:-1]),
        replace(record, kind=record.kind[:-1]),
        replace(record, root_values=np.append(record.root_values, np.float32(0))),
        replace(record, params={"komi": 7.5}),
    ):
        with pytest.raises(ValueError, match=r"differ in length|illegal|komi"):
            who.resume(0, replace(game, record=bad))
    for index in (-1, 6):
        with pytest.raises(ValueError, match="index"):
            who.resume(index, game)
    over = play(who, 2000)[0]
    with pytest.raises(ValueError, match="over"):
        who.resume(0, replace(game, record=over))


class Replay:
    """A replay in memory: keeps records and open games, and takes a game out of these with its record."""

    def __init__(self) -> None:
        self.control, self.failures, self.metrics = Control(epoch=2), 0, b""
        self.records: list[GameRecord] = []
        self.open_games: dict[str, bytes] = {}
        self.room = 10**9

    def put_all(self, records: Iterable[GameRecord]) -> int:
        taken = list(records)[: self.room]
        self.records += taken
        for record in taken:
            self.open_games.pop(record.open_id, None)
        return len(taken)

    def take(self) -> TakenGames:
        return TakenGames(dict(self.open_games), 1)

    def put(self, sequence: int, games: Mapping[str, bytes]) -> None:
        if sequence == len(self.records):  # else games that ended before are not here yet
            self.open_games = dict(games)


def run_actor(replay: Replay, incarnation: int, games: int, *, is_killed: bool = False) -> None:
    """An actor's loop, until so many games have ended in all."""
    who = player(6, incarnation)
    before = len(replay.records)
    mine = OpenGames(who, Validation(GAME, HASH), seconds=0.02, take=replay.take,
                     put=lambda sequence, games: replay.put(before + sequence, games))
    loop = ActorLoop(who, replay, lambda weights: None, epoch=2, open_games=mine)
    loop.set_ready()
    if is_killed:
        loop.save_open_games = lambda: None  # type: ignore[method-assign]
    thread = threading.Thread(target=loop.run)
    thread.start()
    while len(replay.records) < games:
        time.sleep(0.001)
    loop.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_a_loop_goes_on_with_the_games_of_loops_that_were_stopped_or_killed() -> None:
    replay = Replay()
    kept: dict[str, GameRecord] = {}  # as they were saved by the loop before
    for incarnation in range(5):
        run_actor(replay, incarnation, len(replay.records) + 12, is_killed=incarnation % 2 == 1)
        ended = {record.open_id: record for record in replay.records}
        assert len(ended) == len(replay.records), "none ends twice"
        for name, begun in kept.items():
            goes_on = ended.get(name) or decode_open_game(name, replay.open_games[name]).record
            assert moves(goes_on)[: len(begun)] == moves(begun), "none is lost"
        kept = {name: decode_open_game(name, data).record for name, data in replay.open_games.items()}
        assert kept or incarnation % 2, "a stop saves them"
    assert not kept.keys() & {record.open_id for record in replay.records}
    assert len({record.open_id.rpartition(".")[0] for record in replay.records}) > 6
