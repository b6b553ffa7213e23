"""How far ratings, the sequential test and the gate can be trusted, by simulation.

    python -m benchmarks.strength.ratings [--no-record]

- 1,000 tournaments of 8 players of known Elo, 40 pairs of games a pairing: how often the 95 % interval of a difference
  holds the truth.
- 2,000 matches under each hypothesis of the sequential test: how often it accepts the wrong one, after how many pairs.
- 200 gates for an equal candidate and for one 100 Elo stronger: how many pass.

Each once for independent games, for openings that favour one side, and with draws.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import ROOT, record
from shusaku.actors.arena.ratings import Estimate
from shusaku.actors.arena.sprt import LEAST_PAIRS, Sprt
from shusaku.common.config.schema import GateConfig

KINDS = {"independent": (0.0, 0.0), "uneven openings": (0.0, -0.6), "draws": (0.5, 0.0), "both": (0.5, -0.6)}
TOURNAMENTS, PLAYERS, PAIRS, SPREAD = 1000, 8, 40, 300.0
MATCHES, MOST_PAIRS = 2000, 4000
TESTS = (Sprt(0.0, 100.0, 0.05, 0.05), Sprt(0.0, 40.0, 0.05, 0.05))
GATES = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-record", action="store_true", help="only print")
    options = parser.parse_args()
    for kind, (draws, correlation) in KINDS.items():
        values = {"coverage": coverage(draws, correlation),
                  "sprt": [errors(test, draws, correlation) for test in TESTS],
                  "gate": {f"{elo:g} Elo": gate_share(elo, draws, correlation) for elo in (0.0, 100.0)}}
        print(kind, values, flush=True)
        if not options.no_record:
            record("ratings.jsonl", "python -m benchmarks.strength.ratings", name=kind, **values)


def coverage(draws: float, correlation: float) -> float:
    """The share of all intervals that hold the true difference."""
    from tournaments import tournaments

    elo = np.linspace(-SPREAD, SPREAD, PLAYERS)
    results = tournaments(elo, TOURNAMENTS, PAIRS, draws=draws, correlation=correlation, seed=1)
    low, high = Estimate(results, PLAYERS).intervals(0)
    truth = elo - elo[0]
    return round(float(((low <= truth) & (truth <= high))[:, 1:].mean()), 4)


def errors(sprt: Sprt, draws: float, correlation: float) -> dict[str, Any]:
    """How often the test is wrong under each hypothesis, and how many pairs it takes."""
    false_h1, pairs0, open0 = simulate(sprt, sprt.elo0, draws, correlation, is_wrong_above=True)
    false_h0, pairs1, open1 = simulate(sprt, sprt.elo1, draws, correlation, is_wrong_above=False)
    return {"elo0": sprt.elo0, "elo1": sprt.elo1, "alpha": sprt.alpha, "beta": sprt.beta, "found_alpha": false_h1,
            "found_beta": false_h0, "mean_pairs": [pairs0, pairs1], "undecided": open0 + open1}


def simulate(
    sprt: Sprt, elo: float, draws: float, correlation: float, *, is_wrong_above: bool
) -> tuple[float, float, int]:
    """Share of wrong decisions, mean number of pairs, and matches without a decision after MOST_PAIRS."""
    random = np.random.default_rng(7)
    counts = np.zeros((MATCHES, 5))
    going, wrong, pairs = np.arange(MATCHES), 0, 0
    for played in range(1, MOST_PAIRS + 1):
        outcomes = pair_outcomes(elo, len(going), draws, correlation, random)
        counts[going, outcomes] += 1
        if played < LEAST_PAIRS:
            continue
        ratios = sprt.ratio(counts[going])
        above, below = ratios >= sprt.upper, ratios <= sprt.lower
        wrong += int(np.count_nonzero(above if is_wrong_above else below))
        pairs += played * int(np.count_nonzero(above | below))
        going = going[~(above | below)]
        if not len(going):
            break
    return wrong / MATCHES, round(pairs / max(1, MATCHES - len(going)), 1), len(going)


def gate_share(elo: float, draws: float, correlation: float) -> float:
    """The share of candidates so much stronger that pass the gate as it is set by default."""
    gate, random = GateConfig(), np.random.default_rng(9)
    outcomes = pair_outcomes(elo, GATES * gate.games // 2, draws, correlation, random)
    scores = outcomes.reshape(GATES, -1).sum(1) / 2 / gate.games
    return float(np.mean(scores > gate.score))


def pair_outcomes(
    elo: float, count: int, draws: float, correlation: float, random: np.random.Generator
) -> NDArray[np.intp]:
    """Twice the points of the first player in so many pairs: 0 to 4."""
    from tournaments import expected_share, pair_points

    share = np.broadcast_to(expected_share(np.array(elo)), (count,))
    return np.asarray(2 * pair_points(share, draws, correlation, random).sum(-1)).astype(np.intp)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
    main()
