#!/usr/bin/env bash
# Our default networks against each engine: trains those that do not ship, MINUTES (20) each, in one process with one
# actor, then plays 100 games with 64 simulations a move.  A second call goes on where the first one stopped; matches that
# are recorded are not played again.  Engines come from where `make oracles` put them, gtp-rhino from the system.
set -euo pipefail
cd "$(dirname "$0")/../.."
minutes=${MINUTES:-20}
out=benchmarks/results/default_networks.jsonl
PATH="$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/shusaku/oracles/bin:/usr/games"

recorded() { grep -qs "\"name\": \"$1\"" "$out"; }
train() {  # EXPERIMENT
  recorded "training of $1" || .venv/bin/python -m benchmarks.lib "$out" --append --name "training of $1" -- \
    local experiment="$1" run.dir="runs/engines_$1" run.minutes="$minutes" actors.count=1 strength.enabled=false \
    rater.enabled=false
}
match() {  # NAME OVERRIDES...
  recorded "$1" || .venv/bin/python -m benchmarks.lib "$out" --append --name "$1" -- \
    match "${@:2}" first.search.simulations=64 games=100
}
usi() { echo second.engine=usi second.command="$1" second.nodes="$2"; }
first=benchmarks/networks/go_9x9_first/weights.safetensors  # of Go
gnugo="gnugo --mode gtp --chinese-rules --capture-all-dead --positional-superko --level"

for game in ${GAMES:-go minishogi chess othello shogi}; do
  case $game in
  go)
    for level in 1 10; do
      match "gnugo_$level" first.checkpoint=$first second.engine=gtp "second.command=\"$gnugo $level\""
    done ;;
  minishogi)
    train minishogi
    match minishogi_fairy $(usi fairy-stockfish 1000) first.checkpoint=runs/engines_minishogi \
      "second.options={UCI_Variant: minishogi, Skill Level: 0}" ;;
  chess)
    train chess_small
    match stockfish first.checkpoint=runs/engines_chess_small second.engine=uci second.command=stockfish \
      "second.options={Skill Level: 0}" second.nodes=1000 ;;
  othello)
    train othello
    match rhino first.checkpoint=runs/engines_othello second.engine=gtp 'second.command="gtp-rhino -l 1"' ;;
  shogi)
    train shogi_small
    match shogi_fairy $(usi fairy-stockfish 1000) first.checkpoint=runs/engines_shogi_small \
      "second.options={UCI_Variant: shogi, Skill Level: 0}"
    match gpsusi first.checkpoint=runs/engines_shogi_small second.engine=usi second.command=gpsusi second.movetime_ms=100 ;;
  esac
done
