#!/usr/bin/env bash
# Two runs of an hour each, experiment=go_9x9 and go_9x9_baseline, and 200 games of 64 simulations between their last networks.
# Into benchmarks/results/go_against_baseline.jsonl.
set -euo pipefail
cd "$(dirname "$0")/../.."
for experiment in go_9x9_baseline go_9x9; do
  .venv/bin/shusaku train experiment="$experiment" run.dir="runs/duel_$experiment" run.checkpoint_seconds=300 \
    run.keep_checkpoints=1000 "$@"
done
.venv/bin/python -m benchmarks.lib go_against_baseline.jsonl --name "go_9x9 against go_9x9_baseline" -- match \
  first.checkpoint=runs/duel_go_9x9 second.checkpoint=runs/duel_go_9x9_baseline search.simulations=64 games=200
