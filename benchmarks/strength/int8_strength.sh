#!/usr/bin/env bash
# Whether 8 bits cost strength: int8_strength.sh RUN_DIR plays its newest network in 8 bits against itself in bf16 (fp32 if
# the processor has none), 2,000 games of 64 simulations each, and then trains 20 minutes with int8 and with auto, for two
# learning curves of the same seed.  Into benchmarks/results/int8.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
run=$1
.venv/bin/python -m benchmarks.lib int8.jsonl --name "int8 against auto" -- match first.checkpoint="$run" \
  second.checkpoint="$run" first.precision=int8 second.precision=auto search.simulations=64 games=2000
for precision in int8 auto; do
  .venv/bin/python -m benchmarks.lib int8.jsonl --append --name "20 minutes with $precision" -- train \
    inference.precision=$precision run.dir="runs/precision_$precision" "${@:2}"
done
