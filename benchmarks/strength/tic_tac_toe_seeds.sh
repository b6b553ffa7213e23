#!/usr/bin/env bash
# Trains tic-tac-toe for three minutes with each of three seeds and prints mistakes over the 4,520 positions.
set -euo pipefail
cd "$(dirname "$0")/../.."
for seed in 1 2 3; do
  .venv/bin/shusaku local experiment=tic_tac_toe run.seed="$seed" run.dir="runs/tic_tac_toe_seed_$seed" --json 2>/dev/null | tail -n 1 |
    .venv/bin/python -c 'import json, sys; r = json.load(sys.stdin); print("seed", sys.argv[1], "mistakes with 64 simulations:",
      r["search_64"]["mistakes"], "alone:", r["policy"]["mistakes"], "never loses:", r["never_loses"])' "$seed"
done
