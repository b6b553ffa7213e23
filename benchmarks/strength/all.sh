#!/usr/bin/env bash
# Every game of ours after each of its times of training, against references from outside: lines for the table
# `every_game` (benchmarks/strength_results.py).  One game at a time, on all cores; a second call goes on
# where the first one stopped, a training from its checkpoint, and what is recorded is not made again.
#
#   benchmarks/strength/all.sh                    # every game; MINUTES='20 60 360' and SEEDS='1 2 3' choose others
#   benchmarks/strength/all.sh go_9x9 hex_7       # these
#   SCALE=2 benchmarks/strength/all.sh go_9x9     # twice the minutes: on two cores without AMX
#
# Engines come from where `make oracles` put them, GNU Go and gtp-rhino from the system.  What fails, such as a match for which
# an engine is missing, is named at the end, and does not keep the rest from being made.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
results=benchmarks/results out=strength_table.jsonl
PATH="$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/shusaku/oracles/bin:/usr/games"
games=${*:-tic_tac_toe connect_four othello_6x6 othello hex_7 go_5x5 go_7x7 go_9x9 minishogi chess_small shogi_small}
gnugo="gnugo --mode gtp --chinese-rules --capture-all-dead --positional-superko --level"

missed=()
trap 'exit 130' INT TERM
recorded() { grep -qs "\"name\": \"$1\"" "$results/$out"; }
once() {  # NAME WORDS...: a command of shusaku, recorded under this name
  recorded "$1" && return
  if [ "$2" != train ] && [ ! -e "$run" ]; then
    missed+=("$1: no $run here; without the line '$label' in $results/$out it is trained here")
    return
  fi
  .venv/bin/python -m benchmarks.lib "$out" --append --name "$1" -- "${@:2}" || missed+=("$1: exit code $?")
}
match() {  # REFERENCE GAMES WORDS...
  once "$label, $simulations simulations against $1" match first.checkpoint="$run" \
    first.search.simulations="$simulations" games="$2" "${@:3}"
}
uct() { match "UCT $1" "$2" second.engine=mcts second.search.simulations="$1" "${@:3}"; }
uct_from_the_empty_board() {
  match "UCT 10000 from the empty board" 100 second.engine=mcts second.search.simulations=10000 match.opening_plies=0
}
against_gnugo() { match "GNU Go $1" "${2:-400}" second.engine=gtp "second.command=\"$gnugo $1\""; }
fairy() {  # VARIANT
  match "Fairy-Stockfish 0" 100 second.engine=usi second.command=fairy-stockfish second.nodes=1000 \
    "second.options={UCI_Variant: $1, Skill Level: 0}"
}
curve() {  # all versions that checkpoints keep meet the one before, and weak anchors, until each pair has 60 games
  recorded "$label, Elo over minutes" && return
  .venv/bin/shusaku rate run.dir="$run" rater.fill=60 'rater.anchors=[random,uct_10]' || missed+=("$label: ratings")
  .venv/bin/python -m benchmarks.strength.elo_curve "$label" "$run" || missed+=("$label: its Elo over minutes")
}
exact() { once "$label exactly" evaluate checkpoint="$run"; }
random_mover() { match "a random mover" 100 second.engine=random; }

for game in $games; do
  case $game in
  tic_tac_toe) times=1 seeds=${SEEDS:-1 2 3} ;;
  connect_four) times=${MINUTES:-20 60} seeds=${SEEDS:-1 2 3} ;;
  *) times=${MINUTES:-20 60} seeds=${SEEDS:-1} ;;
  esac
  for minutes in $times; do
    for seed in $seeds; do
      minutes_scaled=$((minutes * ${SCALE:-1}))
      simulations=64
      label="$game $minutes_scaled minutes seed $seed" run="runs/strength/$game-$minutes_scaled-$seed"
      preset=(experiment="$game")
      # Solved: who moves first owns the whole board (van der Werf 2003), so with a komi of 24.5 the first player wins, just.
      if [ "$game" = go_5x5 ]; then preset=(experiment=go_7x7 game.size=5 game.komi=24.5); fi
      once "$label" train "${preset[@]}" run.dir="$run" run.minutes="$minutes_scaled" run.seed="$seed" \
        run.keep_every_minutes="$(((minutes_scaled + 9) / 10))"
      if [ "$minutes_scaled" -ge 20 ] && [ -e "$run" ]; then curve; fi
      case $game in
      tic_tac_toe | connect_four) exact ;;
      othello_6x6)
        exact
        uct 1000 400 ;;
      othello)
        uct 1000 100
        match "gtp-rhino 1" 100 second.engine=gtp 'second.command="gtp-rhino -l 1"' ;;
      hex_7)
        uct 10000 100 match.opening_plies=1
        uct_from_the_empty_board ;;
      go_5x5) uct_from_the_empty_board ;;
      go_7x7) uct 10000 100 ;;
      go_9x9)
        against_gnugo 1
        match "the first go_9x9 that shipped" 400 second.search.simulations=64 \
          second.checkpoint=benchmarks/networks/go_9x9_first/weights.safetensors
        simulations=400 against_gnugo 10
        against_gnugo 10 100 ;;
      minishogi) fairy minishogi ;;
      chess_small)
        random_mover
        match "Stockfish 1350" 100 second.engine=uci second.command=stockfish second.nodes=1000 \
          "second.options={UCI_LimitStrength: true, UCI_Elo: 1350}" ;;
      shogi_small)
        random_mover
        fairy shogi ;;
      esac
    done
  done
done
if [ ${#missed[@]} -gt 0 ]; then
  printf 'missed: %s\n' "${missed[@]}" >&2
  exit 1
fi
