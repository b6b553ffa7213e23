"""The speed of every part, into a file of benchmarks/results/: the tables of docs/results/speed.md.

    python -m benchmarks.speed.suite parts          # rules, tree, replay, learner, network alone: connect four
    python -m benchmarks.speed.suite games          # rules (OpenSpiel beside them) and tree of every game
    python -m benchmarks.speed.suite self_play      # whole self-play of three games, and a simulated GPU

The commands take turns, three rounds, so that a slower minute meets all of them.  Lines of other machines stay.
"""

import argparse

from benchmarks.lib import forget_machine, record, run_shusaku

PUCT = "search=puct search.noise=false search.simulations=64"
SELF_PLAY = f"{PUCT} search.reuse=false self_play.random_plies=0"
AUTO = "actors.games_per_actor=auto"
CONNECT_FOUR = f"game=connect_four network=small {SELF_PLAY} {AUTO}"
GO = f"game=go game.size=9 network=tutorial {SELF_PLAY}"
SIMULATED_GPU = (
    "inference.placement=server inference.runtime=simulated_gpu inference.simulated_gpu_batch_ms=10 actors.count=16 "
    "actors.cpus=0.1 actors.games_per_actor=64"
)
GAMES = (
    "game=go game.size=9", "game=go game.size=19", "game=othello", "game=chess", "game=shogi", "game=hex",
    "game=connect_four", "game=tic_tac_toe",
)
SUITES: dict[str, tuple[tuple[str, str], ...]] = {  # cores, and the command without `shusaku`
    "parts": (
        ("0", "bench rules bench.seconds=3"),
        ("0", f"bench search {PUCT} actors.games_per_actor=16 bench.seconds=5"),
        ("0", "bench search search=gumbel search.simulations=64 bench.seconds=5"),
        ("0", "bench replay bench.seconds=5"),
        ("0", "bench learner network=small learner.threads=1 bench.seconds=8"),
        ("0", "bench inference network=small bench.seconds=20"),
    ),
    "games": tuple(
        ("0", command)
        for game in GAMES
        for command in (f"bench rules {game} bench.seconds=10",
                        f"bench search {game} {PUCT} actors.games_per_actor=16 bench.seconds=4")
    ),
    "self_play": (
        *(("0,1", f"bench selfplay {rules} inference.precision={precision} bench.seconds=15")
          for precision in ("bf16", "int8") for rules in (CONNECT_FOUR, f"{GO} {AUTO}")),
        ("0,1", f"bench selfplay game=tic_tac_toe network=tiny {SELF_PLAY} {AUTO} bench.seconds=10"),
        ("0,1", f"bench selfplay {GO} {SIMULATED_GPU} bench.seconds=15"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    commands = SUITES[options.suite]
    rounds = [[run_shusaku(command.split(), cores) for cores, command in commands] for _ in range(options.rounds)]
    forget_machine(f"{options.suite}.jsonl")
    for (_, command), runs in zip(commands, zip(*rounds, strict=True), strict=True):
        record(f"{options.suite}.jsonl", f"shusaku {command}", runs=list(runs))


if __name__ == "__main__":
    main()
