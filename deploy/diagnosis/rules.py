"""From the facts of a run to findings: what is measured, whether that is good, and the one setting that would help.

The bounds are ours, and say where to look; whether a setting helps, only a second run at the same time can tell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shusaku.common._core import Game
from shusaku.deploy.diagnosis.finding import Finding, advice, good, unknown
from shusaku.deploy.diagnosis.fit import Fit, Mean
from shusaku.deploy.diagnosis.game_facts import OPENING_PLIES, GameFacts
from shusaku.deploy.diagnosis.metric_series import MetricSeries

PAUSED, WAITING = 0.25, 0.6  # shares of the time of actors and learner above which the other side is the limit
POLICY_GAP, VALUE_GAP = 0.15, 0.10  # more of loss on the newest games, in nats and (z - v)^2: overfitting
EXCESS = 0.4  # nats that the policy lacks of the searches', also on games learned from: underfitting
BOLD, TIMID = 0.8, 1.25  # slopes of outcomes on values; 1 is right
LEAST_ROWS = 500  # that a slope is judged by
DECIDED = 0.3  # of the plies
DRAWS, CUT_OFF = 0.85, 0.05  # of the games
ONE_SIDED = 0.85  # points of the side that wins more
OPENINGS = 0.03  # different ones, as a share of the games
SURE = 2.0  # standard errors
PERFECT = 0.995  # of the measured moves; beyond it there is little left to gain
MOST_SAMPLES = 8.0  # of a position that are worth advising


@dataclass(frozen=True)
class RunFacts:
    """Everything that a rule may read."""

    saved: dict[str, Any]  # the tree of the run's config.yaml
    series: MetricSeries
    games: GameFacts
    fit: Fit | None  # None: the window holds too few games


def judge(facts: RunFacts) -> list[Finding]:
    """One finding of each rule, in the order in which a user should act on them."""
    return [rule(facts) for rule in RULES]


def _balance(facts: RunFacts) -> Finding:
    topic = "balance"
    paused = facts.series.recent("self_play", "paused_share")
    waiting = facts.series.recent("learner", "waiting_share")
    if paused is None or waiting is None:
        return good(topic, "one process: playing and learning take turns, and neither waits")
    measured = f"actors pause {paused:.0%} of their time, the learner waits {waiting:.0%}"
    samples = float(facts.saved["replay"]["samples_per_position"])
    actors = facts.series.recent("self_play", "actors") or 1
    if paused > PAUSED and paused >= waiting:
        if samples > 1:
            return advice(topic, measured, f"replay.samples_per_position={max(1.0, samples * (1 - paused)):.2g}",
                          "the learner is the limit, and new games teach more than another look at old ones")
        if actors <= 1:
            return good(topic, f"{measured}; the learner is the limit, and it has what it needs")
        return advice(topic, measured, f"actors.count={min(round(actors) - 1, max(1, round(actors * (1 - paused))))}",
                      "the learner is the limit; fewer actors leave it their cores")
    if waiting > WAITING:
        if facts.fit is not None and _is_overfitting(facts.fit):
            if not int(facts.saved["actors"]["count"]):
                return good(topic, f"{measured}; self-play is the limit, and more cores alone would help: more looks "
                                   "at each position would have the network remember more of its games")
            return advice(topic, measured, "actors.count=auto",
                          "self-play is the limit, and more looks at each position would have the network remember "
                          "more of its games; with auto all free cores play")
        if samples >= MOST_SAMPLES:
            return good(topic, f"{measured}; self-play is the limit, and each position teaches often already")
        return advice(topic, measured, f"replay.samples_per_position={min(MOST_SAMPLES, 1.5 * samples):.2g}",
                      "self-play is the limit; until actors have more cores, each position can teach more often")
    return good(topic, measured)


def _fit(facts: RunFacts) -> Finding:
    topic, fit = "fit", facts.fit
    if fit is None:
        return unknown(topic, "the window holds too few games to compare new ones with old ones")
    unseen = "games kept aside" if fit.is_kept_aside else "the newest games"
    measured = (f"on {unseen} the policy lacks {_said(fit.unseen.excess)} nats of the searches', and the value's "
                f"squared error is {_said(fit.unseen.value)}; on games learned from {_said(fit.learned.excess)} and "
                f"{_said(fit.learned.value)}")
    samples = float(facts.saved["replay"]["samples_per_position"])
    if _is_overfitting(fit):
        if samples > 1:
            return advice(topic, measured, f"replay.samples_per_position={max(1.0, samples / 2):.2g}",
                          "the network remembers its games (overfitting); fewer looks at each position")
        return advice(topic, measured, _larger_window(facts),
                      "the network remembers its games (overfitting); a larger window has more of them")
    slope = facts.series.slope("learner", "loss/policy")
    is_falling = slope is not None and slope.per_hour < -SURE * slope.error
    if _is_more(fit.learned.excess, EXCESS) and not is_falling:
        return advice(topic, measured, f"network.filters={2 * int(facts.saved['network']['filters'])}",
                      "it falls no more, also on games learned from (underfitting); a larger network can hold more")
    return good(topic, measured)


def _is_overfitting(fit: Fit) -> bool:
    """Whether more looks at each position would harm: `_fit` advises fewer then."""
    return _is_more(fit.policy_gap, POLICY_GAP) or _is_more(fit.value_gap, VALUE_GAP)


def _said(mean: Mean) -> str:
    return f"{mean.value:.2f} ± {SURE * mean.error:.2f}"


def _is_more(mean: Mean, bound: float) -> bool:
    """Whether it is above the bound, and not by chance alone above 0."""
    return mean.value > bound and mean.value > SURE * mean.error


def _larger_window(facts: RunFacts) -> str:
    """The setting with which the window keeps about twice the games."""
    replay = facts.saved["replay"]
    capacity, factor = int(replay["capacity"]), float(replay["window_factor"])
    if replay["window"] == "fixed" or (facts.series.last("replay", "window") or 0) >= capacity:
        return f"replay.capacity={2 * capacity}"
    return f"replay.window_factor={min(1.0, 2 * factor):g}" if factor < 1 else "replay.window=fixed"


def _values(facts: RunFacts) -> Finding:
    topic = "values"
    parts = [part for part in facts.games.calibration if part.rows >= LEAST_ROWS]
    if not parts:
        return unknown(topic, "too few searched positions to compare values with outcomes")
    measured = "; ".join(f"{part.part} third: squared error {part.error:.2f}, bias {part.bias:+.2f}, outcomes are "
                         f"{part.slope:.2f} of the values" for part in parts)
    worst = min(parts, key=lambda part: part.slope)
    learner = facts.saved["learner"]
    if worst.slope < BOLD:
        reason = f"values are too bold in the {worst.part} third: outcomes of single games are a noisy label"
        if float(learner.get("root_value_share", 0)) < 0.5:
            return advice(topic, measured, "learner.root_value_share=0.5",
                          f"{reason}, the search's value is a calmer one")
        if float(learner.get("value_lambda", 0)) < 0.8:
            return advice(topic, measured, "learner.value_lambda=0.8", f"{reason}, later searches know them better")
        return advice(topic, measured, _larger_window(facts), f"{reason}, and a larger window has more of them")
    if max(part.slope for part in parts) > TIMID:
        return advice(topic, measured, f"learner.value_weight={2 * float(learner['value_weight']):g}",
                      "values are too timid: the value head learns too slowly beside the policy")
    return good(topic, measured)


def _decided(facts: RunFacts) -> Finding:
    topic = "decided games"
    measured = f"{facts.games.decided:.0%} of the plies are played after the game is as good as over"
    if facts.games.decided <= DECIDED:
        return good(topic, measured)
    if float(facts.saved["self_play"]["resign_errors"]) == 0:
        return advice(topic, measured, "self_play.resign_errors=0.05", "resigning saves the time of the rest")
    if _spares_decided(facts):
        return good(topic, f"{measured}, with shorter searches")
    return advice(topic, measured, "self_play.decided_value=0.9", "shorter searches there save their time")


def _spares_decided(facts: RunFacts) -> bool:
    return float(facts.saved["self_play"].get("decided_value", 1.0)) < 1.0


def _draws(facts: RunFacts) -> Finding:
    topic, games = "draws", facts.games
    measured = f"{games.draws:.0%} of {games.games:,} games"
    if games.draws <= DRAWS:
        return good(topic, measured)
    plies = max(4, 2 * int(facts.saved["self_play"]["random_plies"]))
    return advice(topic, measured, f"self_play.random_plies={plies}",
                  "equal games teach the value little; from uneven beginnings more of them are decided "
                  "(where perfect play draws, this may also be the end of learning)")


def _length(facts: RunFacts) -> Finding:
    topic, games = "length", facts.games
    measured = f"{games.plies:.0f} plies a game, {games.cut_off:.0%} of them stopped by the limit on plies"
    if games.cut_off <= CUT_OFF:
        return good(topic, measured)
    if float(facts.saved["self_play"]["resign_errors"]) == 0:
        return advice(topic, measured, "self_play.resign_errors=0.05",
                      "a game that the limit stops counts as a draw; who has lost should end it before")
    if facts.saved["learner"].get("cut_off_value") == "search":
        return good(topic, f"{measured}, which are learned from as what their last search said")
    if _spares_decided(facts):
        return advice(topic, measured, "learner.cut_off_value=search",
                      "a game that the limit stops counts as a draw; its last search knows better")
    return advice(topic, measured, "self_play.decided_value=0.9",
                  "a game that the limit stops counts as a draw; decided games should cost less on their way there")


def _first_player(facts: RunFacts) -> Finding:
    topic, score = "first player", facts.games.first_score
    measured = f"scores {score:.0%}"
    if 1 - ONE_SIDED <= score <= ONE_SIDED:
        return good(topic, measured)
    params = facts.saved["game"].get("params") or {}
    if facts.saved["game"]["name"] == "go":
        komi = float(Game("go", params).params["komi"]) + (2 if score > ONE_SIDED else -2)
        return advice(topic, measured, f"game.komi={komi:g}", "games that one side always wins teach little")
    plies = max(4, 2 * int(facts.saved["self_play"]["random_plies"]))
    return advice(topic, measured, f"self_play.random_plies={plies}",
                  "games that one side always wins teach little; from uneven beginnings both win some")


def _openings(facts: RunFacts) -> Finding:
    topic, games = "openings", facts.games
    measured = f"{games.openings:.1%} of the games begin with {OPENING_PLIES} plies that no other one had before"
    if games.openings >= OPENINGS:
        return good(topic, measured)
    plies = max(2.0, 2 * float(facts.saved["self_play"]["policy_plies"]))
    return advice(topic, measured, f"self_play.policy_plies={plies:g}",
                  "the same games again and again; first moves drawn from the policy vary them")


def _progress(facts: RunFacts) -> Finding:
    topic = "progress"
    found = _strength_series(facts.series)
    if found is None:
        return unknown(topic, "neither accuracy nor Elo was measured four times in the second half of the run; "
                       "strength.enabled and rater.enabled measure them")
    (source, name), unit, scale = found
    slope = facts.series.slope(source, name)
    last = facts.series.last(source, name)
    assert slope is not None
    assert last is not None
    measured = (f"{scale * slope.per_hour:+,.1f} ± {scale * SURE * slope.error:,.1f} {unit} an hour over the second "
                f"half of the run, {scale * last:,.1f} at last")
    learner = facts.saved["learner"]
    if slope.per_hour < -SURE * slope.error:
        return advice(topic, measured, f"learner.learning_rate={float(learner['learning_rate']) / 2:.2g}",
                      "it is losing strength; smaller steps are the first remedy")
    if slope.per_hour <= SURE * slope.error and not (source == "strength" and last >= PERFECT):
        if learner["schedule"] == "constant":
            return advice(topic, measured, "learner.schedule=cooldown",
                          "it stands still; a falling learning rate is worth most at the end of a run")
        return advice(topic, measured, f"network.blocks={2 * int(facts.saved['network']['blocks'])}",
                      "it stands still; a new run with a deeper network can come further")
    return good(topic, measured)


def _strength_series(series: MetricSeries) -> tuple[tuple[str, str], str, float] | None:
    """Accuracy with searches, or else Elo: key, unit and what a unit is multiplied by."""
    searches = [name for name in series.names("strength") if name.startswith("search_")]
    for key, unit, scale in (*(((("strength", name), "points of accuracy", 100.0)) for name in searches),
                             (("rating", "elo"), "Elo", 1.0)):
        if series.slope(*key) is not None:
            return key, unit, scale
    return None


RULES: tuple[Callable[[RunFacts], Finding], ...] = (
    _progress, _balance, _fit, _values, _openings, _first_player, _draws, _length, _decided)
