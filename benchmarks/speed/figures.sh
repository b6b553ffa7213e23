#!/usr/bin/env bash
# The short figures of the README, one JSON line each, into benchmarks/results/figures.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=benchmarks/results/figures.jsonl
. benchmarks/speed/lines.sh
for repeat in 1 2 3; do
  bench 0 rules bench.seconds=3
  bench 0 search search=puct search.noise=false search.simulations=64 actors.games_per_actor=16 bench.seconds=5
  bench 0 search search=gumbel search.simulations=64 bench.seconds=5
  bench 0 replay bench.seconds=5
  bench 0 learner network=small learner.threads=1 bench.seconds=8
  bench 0,1 selfplay network=small search=puct search.noise=false search.reuse=false search.simulations=64 self_play.random_plies=0 \
    actors.games_per_actor=auto bench.seconds=15
done
bench 0 inference network=small bench.seconds=20
