#!/usr/bin/env bash
# Trains one preset for its time, then plays: learns.sh go_9x9 | othello_6x6.  Matches into benchmarks/results/EXPERIMENT.jsonl,
# the curve into docs/EXPERIMENT.png.
set -euo pipefail
cd "$(dirname "$0")/.."
experiment=$1
run=runs/$experiment
out=benchmarks/results/$experiment.jsonl
.venv/bin/shusaku train experiment="$experiment" run.checkpoint_seconds=300 run.keep_checkpoints=1000 "${@:2}"
: > "$out"
match() {  # NAME OVERRIDES...
  local name=$1; shift
  echo "match $*" >&2
  printf '{"name": "%s", "command": "match %s", "result": %s}\n' "$name" "${*//\"/\\\"}" "$(.venv/bin/shusaku match "$@" --json 2>/dev/null | tail -n 1)" >> "$out"
}
uct="second.engine=mcts second.search.simulations=1000"
match first_checkpoint first.checkpoint="$run" second.checkpoint="$run/weights_first.safetensors" search.simulations=64 games=100
match uct_1000 first.checkpoint="$run" first.search.simulations=64 $uct games=100
mean="first.search.average_symmetries=true"
match uct_1000_mean first.checkpoint="$run" first.search.simulations=64 $mean $uct games=400
match uct_1000_as_many_simulations first.checkpoint="$run" first.search.simulations=1000 $uct games=400
match uct_1000_as_many_simulations_mean first.checkpoint="$run" first.search.simulations=1000 $mean $uct games=400
match uct_1000_200_simulations first.checkpoint="$run" first.search.simulations=200 $uct games=400
match uct_1000_400 first.checkpoint="$run" first.search.simulations=64 $uct games=400
if [[ $experiment == go_9x9 ]]; then
  match gnugo_1 first.checkpoint="$run" first.search.simulations=64 second.engine=gtp games=100 \
    "second.command='gnugo --mode gtp --level 1 --chinese-rules --capture-all-dead --positional-superko'"
fi
for checkpoint in "$run"/checkpoints/*/; do # the curve
  match curve first.checkpoint="${checkpoint%/}" first.search.simulations=64 $uct games=40
done
.venv/bin/python benchmarks/plot_matches.py "$out" "$run" "docs/$experiment.png"
