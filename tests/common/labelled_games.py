"""Random games as records, and the labels of their rows computed slowly, straight from the definitions."""

import math
from typing import Any, NamedTuple

import numpy as np

from shusaku.common._core import Game
from shusaku.common.messages import EndedBy, GameId, GameRecord, RowKind


def random_game(game: Game, seed: int, stop_early: bool = False) -> GameRecord:
    """Random moves and numbers: an opening without searches, then full searches and cheap ones of either weight."""
    rng = np.random.default_rng(seed)
    position, actions, policies = game.start(), [], []
    opening = int(rng.integers(0, 3))
    while not position.is_terminal:
        legal = position.legal_actions
        shares = np.diff([0, *np.sort(rng.integers(0, 65_536, len(legal) - 1)), 65_535])
        policies.append([] if len(actions) < opening else list(zip(legal, shares.tolist(), strict=True)))
        # Half of the moves are the search's own first choice, the others blunder.
        best = legal[int(np.argmax(shares))]
        actions.append(best if rng.random() < 0.5 and policies[-1] else int(rng.choice(legal)))
        position.play(actions[-1])
    outcome, ended_by = for_first(position.outcome, position.to_play), EndedBy.RULES
    score = for_first(position.score, position.to_play)
    if position.is_cut_off:
        ended_by = EndedBy.PLY_LIMIT
    if stop_early and len(actions) > 3:
        actions, policies = actions[:-2], policies[:-2]
        outcome, score, ended_by = int(rng.choice([-1, 1])), math.nan, EndedBy.RESIGNATION
    plies = len(actions)
    cheap = rng.random(plies) < 0.3
    kind = np.where(np.arange(plies) < opening, RowKind.OPENING, np.where(cheap, RowKind.CHEAP, RowKind.FULL))
    weight = np.where(kind == RowKind.FULL, rng.choice([0.25, 1.0], plies), np.where(rng.random(plies) < 0.5, 1.0, 0.0))
    entries = [entry for policy in policies for entry in policy]
    return GameRecord(
        game=game.name, params=game.params, game_id=GameId(0, 0, 0, seed), config_hash="", outcome=outcome, score=score,
        ended_by=ended_by, actions=np.array(actions, np.uint16),
        policy_offsets=np.cumsum([0, *map(len, policies)]).astype(np.uint32),
        policy_actions=np.array([a for a, _ in entries], np.uint16),
        policy_shares=np.array([share for _, share in entries], np.uint16),
        root_values=np.where(kind == RowKind.OPENING, 0, rng.uniform(-1, 1, plies)).astype(np.float32),
        raw_values=rng.uniform(-1, 1, plies).astype(np.float32), versions=np.zeros(plies, np.uint32),
        kind=kind.astype(np.uint8), row_weight=np.where(kind == RowKind.OPENING, 0, weight).astype(np.float32),
        surprise=rng.exponential(0.3, plies).astype(np.float32),
    )


def for_first(number: Any, player: int) -> Any:
    return number if player == 0 else -number


class Row(NamedTuple):
    """One row of a record, for the player to move, under no symmetry."""

    planes: list[Any]  # under every symmetry
    ply: int
    policy: np.ndarray  # [A]
    reply: np.ndarray  # [A]
    outcome: float
    deblundered: float
    short_term: list[float]
    score: float
    ownership: np.ndarray | None  # [H, W]


def labelled_rows(game: Game, r: GameRecord, horizons: tuple[float, ...], gap: float, width: float) -> list[Row]:
    """Every row with weight."""
    position = game.start()
    players, planes = [], []
    for action in r.actions:
        players.append(position.to_play)
        planes.append([position.observation(s) for s in range(game.num_symmetries)])
        position.play(int(action))
    rows = []
    for t in np.flatnonzero(r.row_weight > 0):
        me = players[t]
        z = for_first(r.outcome, me)
        follows = t + 1 < len(r) and r.row_weight[t + 1] > 0
        is_answer = follows and r.kind[t + 1] == r.kind[t] and players[t + 1] != me
        owners = None
        try:
            if position.is_terminal:
                owners = position.ownership * (1 if position.to_play == me else -1)
        except ValueError:
            pass  # the game has none
        reply = policy_of(game, r, t + 1) if is_answer else np.zeros(game.num_actions)
        rows.append(Row(
            planes[t], int(t), policy_of(game, r, t), reply, z, deblundered(r, players, int(t), gap, width),
            [short_term(r, players, int(t), h) for h in horizons],
            for_first(position.score, int(position.to_play != me)) if position.is_terminal else math.nan, owners,
        ))
    return rows


def policy_of(game: Game, r: GameRecord, t: int) -> np.ndarray:
    policy = np.zeros(game.num_actions)
    for i in range(r.policy_offsets[t], r.policy_offsets[t + 1]):
        policy[r.policy_actions[i]] = r.policy_shares[i] / 65_535
    return policy


def short_term(r: GameRecord, players: list[int], t: int, horizon: float) -> float:
    """KataGo's sum as it is written: (1 - l) sum_k l^k v_k over the searches from ply t on, and l^n z for the rest."""
    decay = 1 - 1 / horizon
    values = [r.root_values[u] if players[u] == players[t] else -r.root_values[u]
              for u in range(t, len(r)) if r.kind[u] != RowKind.OPENING]
    total = sum((1 - decay) * decay**k * float(v) for k, v in enumerate(values))
    return total + decay ** len(values) * for_first(r.outcome, players[t])


def deblundered(r: GameRecord, players: list[int], t: int, gap: float, width: float) -> float:
    """lc0's rescoring read forwards: the label is z unless this move or a later one was a blunder."""
    is_last = t + 1 == len(r)
    if is_last:
        later = played = float(for_first(r.outcome, players[t]))
    else:
        same = 1 if players[t + 1] == players[t] else -1
        later, played = same * deblundered(r, players, t + 1, gap, width), same * float(r.root_values[t + 1])
    shares = {int(r.policy_actions[i]): int(r.policy_shares[i])
              for i in range(r.policy_offsets[t], r.policy_offsets[t + 1])}
    is_judged = r.kind[t] != RowKind.OPENING and (is_last or r.kind[t + 1] != RowKind.OPENING)
    if not is_judged or not shares or shares.get(int(r.actions[t]), 0) == max(shares.values()):
        return later
    lost = float(r.root_values[t]) - played
    if lost <= gap - width / 2:
        return later
    f = min(1.0, (lost - gap) / width + 0.5) if width else 1.0
    return (1 - f) * later + f * float(r.root_values[t])


def coin_kl(p: float, q: float) -> float:
    """KL of win and loss with mean p from those with mean q, at most 1."""
    a, b = np.array([1 + p, 1 - p]) / 2, np.maximum(np.array([1 + q, 1 - q]) / 2, 1e-30)
    return float(min(1.0, sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)))


def draw_weights(game: Game, r: GameRecord, policy_share: float, value_share: float) -> dict[int, float]:
    """Ply -> how often its row is drawn, compared with the average row of the game (KataGo: cpp/program/play.cpp)."""
    position, players = game.start(), []
    for action in r.actions:
        players.append(position.to_play)
        position.play(int(action))
    _, height, width = game.observation_shape
    plies = [int(t) for t in np.flatnonzero(r.row_weight > 0)]
    kl = {t: float(r.surprise[t]) for t in plies}
    horizon = 1 + 0.016 * height * width
    value = {t: coin_kl(short_term(r, players, t, horizon), float(r.raw_values[t])) for t in plies}
    mean_kl, mean_value = np.mean(list(kl.values())), np.mean(list(value.values()))
    value_share *= min(1, mean_value / 0.01)
    return {t: 1 - policy_share - value_share + policy_share * kl[t] / mean_kl + value_share * value[t] / mean_value
            for t in plies}
