#!/usr/bin/env bash
# The network of 40 minutes that ships, and those of 60 (MINUTES=60 benchmarks/strength/all.sh go_9x9) and 80 minutes where the
# hour is, against an hour of the preset before it (from 2026-11-22 to 28), 400 games of 64 simulations each.  Into
# benchmarks/results/strength_table.jsonl, where a second call finds what is made.
set -euo pipefail
cd "$(dirname "$0")/../.."
run=runs/strength/go_9x9_before-60-1 out=strength_table.jsonl
once() {  # NAME WORDS...
  grep -qs "\"name\": \"$1\"" "benchmarks/results/$out" ||
    .venv/bin/python -m benchmarks.lib "$out" --append --name "$1" -- "${@:2}"
}
against_before() {  # MINUTES CHECKPOINT WORDS...
  once "go_9x9 $1 minutes seed 1, 64 simulations against an hour of the preset before" match first.checkpoint="$2" \
    "${@:3}" second.checkpoint="$run" search.simulations=64 games=400
}
once "go_9x9_before 60 minutes seed 1" train experiment=go_9x9 game.planes=zero learner.root_value_share=0 \
  learner.value_lambda=0 learner.learning_rate=0.002 run.dir="$run" run.minutes=60 run.seed=1
against_before 40 shipped game=go
hour=runs/strength/go_9x9-60-1 longer=runs/strength/go_9x9-80-1
if [ -e "$hour" ]; then
  against_before 60 "$hour"
  # That hour goes on for twenty minutes more, in a copy: its steps are full ones again, and fall once more.
  [ -e "$longer" ] || cp -a "$hour" "$longer"
  once "go_9x9 80 minutes seed 1" train experiment=go_9x9 run.dir="$longer" run.minutes=80 run.seed=1 \
    run.keep_every_minutes=6
  against_before 80 "$longer"
fi
