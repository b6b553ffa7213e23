#!/usr/bin/env bash
# Rules, tree and self-play of every game, one JSON line each, into benchmarks/results/games.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=benchmarks/results/games.jsonl
. benchmarks/speed/lines.sh
games=("game=go game.size=9" "game=go game.size=19" "game=othello" "game=chess" "game=shogi" "game=hex" "game=connect_four" "game=tic_tac_toe")
for repeat in 1 2 3; do
  for game in "${games[@]}"; do
    read -ra words <<< "$game"
    bench 0 rules "${words[@]}" bench.seconds=10 # OpenSpiel beside it in the same run
    bench 0 search "${words[@]}" search=puct search.noise=false search.simulations=64 actors.games_per_actor=16 bench.seconds=4
  done
  bench 0,1 selfplay game=go game.size=9 network=tutorial search=puct search.noise=false \
    search.reuse=false search.simulations=64 actors.games_per_actor=auto bench.seconds=20
done
