#!/usr/bin/env bash
# Trains one preset for its time, then plays: learns.sh go_9x9 | othello_6x6 | minishogi | chess_small.  Matches go into
# benchmarks/results/$experiment.jsonl, the curve into docs/images/$experiment.png.  Engines come from where `make oracles` put them.
set -euo pipefail
cd "$(dirname "$0")/../.."
experiment=$1
run=runs/$experiment
out=benchmarks/results/$experiment.jsonl
PATH="$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/shusaku/oracles/bin:/usr/games"
.venv/bin/shusaku train experiment="$experiment" run.checkpoint_seconds=300 run.keep_checkpoints=1000 "${@:2}"
: > "$out"
match() {  # NAME OVERRIDES...
  .venv/bin/python -m benchmarks.lib "$out" --append --name "$1" -- match "${@:2}"
}
ours="first.checkpoint=$run"
uct="second.engine=mcts second.search.simulations=1000"
mean="first.search.average_symmetries=true"
match first_checkpoint $ours second.checkpoint="$run/weights_first.safetensors" search.simulations=64 games=100
[[ $experiment == chess_small ]] && exit
match uct_1000 $ours first.search.simulations=64 $uct games=100
case $experiment in
othello_6x6)
  match uct_1000_mean $ours first.search.simulations=64 $mean $uct games=400
  match uct_1000_as_many_simulations $ours first.search.simulations=1000 $uct games=400
  match uct_1000_as_many_simulations_mean $ours first.search.simulations=1000 $mean $uct games=400
  match uct_1000_200_simulations $ours first.search.simulations=200 $uct games=400
  match uct_1000_400 $ours first.search.simulations=64 $uct games=400 ;;
go_9x9)
  match gnugo_1 $ours first.search.simulations=64 second.engine=gtp games=100 \
    'second.command="gnugo --mode gtp --level 1 --chinese-rules --capture-all-dead --positional-superko"' ;;
minishogi)
  match random $ours first.search.simulations=64 second.engine=random games=100
  match fairy_stockfish $ours first.search.simulations=64 second.engine=usi second.command=fairy-stockfish games=100 \
    "second.options={UCI_Variant: minishogi, Skill Level: -20}" second.nodes=1000 ;;
esac
for checkpoint in "$run"/checkpoints/*/; do # the curve
  match curve first.checkpoint="${checkpoint%/}" first.search.simulations=64 $uct games=40
done
.venv/bin/python -m benchmarks.strength.plot_matches "$out" "$run" "docs/images/$experiment.png"
