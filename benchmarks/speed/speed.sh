#!/usr/bin/env bash
# Self-play at the speed of the silicon: the table of docs/guides/speed.md, one JSON line each, into benchmarks/results/speed.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=benchmarks/results/speed.jsonl
. benchmarks/speed/lines.sh
rules=(search=puct search.noise=false search.reuse=false search.simulations=64 self_play.random_plies=0)
auto=actors.games_per_actor=auto
for repeat in 1 2 3; do
  for precision in bf16 int8; do
    bench 0,1 selfplay game=connect_four network=small "${rules[@]}" $auto inference.precision=$precision bench.seconds=15
    bench 0,1 selfplay game=go game.size=9 network=tutorial "${rules[@]}" $auto inference.precision=$precision bench.seconds=15
  done
  bench 0,1 selfplay game=tic_tac_toe network=tiny "${rules[@]}" $auto bench.seconds=10
  bench 0,1 selfplay game=go game.size=9 network=tutorial "${rules[@]}" inference.placement=server \
    inference.runtime=simulated_gpu inference.batch_latency_ms=10 actors.count=16 actors.cpus=0.1 actors.games_per_actor=64 bench.seconds=15
done
