#!/usr/bin/env bash
# Trains tic-tac-toe for three minutes with each of three seeds: mistakes over the 4,520 positions, with 64 simulations and
# by the network alone.  Into tic_tac_toe.jsonl of benchmarks/results/.
set -euo pipefail
cd "$(dirname "$0")/../.."
for seed in 1 2 3; do
  .venv/bin/python -m benchmarks.lib tic_tac_toe.jsonl $([[ $seed == 1 ]] || echo --append) --name "seed $seed" -- local \
    experiment=tic_tac_toe run.seed="$seed" run.dir="runs/tic_tac_toe_seed_$seed"
done
