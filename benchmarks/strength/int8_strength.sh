#!/usr/bin/env bash
# Whether 8 bits cost strength: int8_strength.sh RUN_DIR plays its newest network in 8 bits against itself in bf16 (fp32 where
# the processor has none), 2,000 games of 64 simulations each, and then trains 20 minutes with int8 and with auto, for two
# learning curves of the same seed.  Into benchmarks/results/int8.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
run=$1
out=benchmarks/results/int8.jsonl
printf '{"name": "int8 against auto", "result": %s}\n' "$(.venv/bin/shusaku match first.checkpoint="$run" second.checkpoint="$run" \
  first.precision=int8 second.precision=auto search.simulations=64 games=2000 --json | tail -n 1)" > "$out"
for precision in int8 auto; do
  .venv/bin/shusaku train inference.precision=$precision run.dir="runs/precision_$precision" "${@:2}"
  printf '{"name": "20 minutes with %s", "result": %s}\n' $precision "$(tr -d '\n' < "runs/precision_$precision/strength.json")" >> "$out"
done
cat "$out"
