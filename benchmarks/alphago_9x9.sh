#!/usr/bin/env bash
# AlphaGo's line on 9x9, from finished games to what each part is worth (Silver et al. 2016): about 6 hours of two cores.
#
#   python -m benchmarks.expert_games runs/alphago_9x9/games     # before: 20,000 games of GNU Go, some hours
#   benchmarks/alphago_9x9.sh                                    # all stages; DIR=… and MINUTES_<STAGE>=… change them,
#                                                                # POSITIONS=… those of errors, PAIRS=… those of the table
#   SECONDS_A_MOVE=1 PLAYERS='rvp vp rp' benchmarks/alphago_9x9.sh table   # the second table, outside the 6 hours
#
# Each stage goes on where it was stopped, also after kill -9: a run from its last checkpoint, the table from the last
# pairing.  Named stages are made alone: records imitation rollout reinforce value errors table.  The table alone, with
# the networks of our own runs: NETWORKS=benchmarks/networks/alphago_9x9 benchmarks/alphago_9x9.sh table
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-runs/alphago_9x9}
games=${GAMES:-$dir/games}
PATH="$PATH:${XDG_CACHE_HOME:-$HOME/.cache}/shusaku/oracles/bin:/usr/games"
shusaku=.venv/bin/shusaku
go="game=go game.size=9"
mkdir -p "$dir"

seconds=${SECONDS_A_MOVE:-0.1}
once() { # NAME COMMAND...: not again once it has ended well
  [[ -f "$dir/$1.done" ]] || { "${@:2}" && touch "$dir/$1.done"; }
}
records() {
  rm -rf "$dir/records"
  # 1: some games were rejected, which it lists
  # The games begin with up to 8 random moves, which nobody should learn.
  $shusaku records import records.file="$games/*.sgf" records.out="$dir/records" records.skip_plies=8 \
    experiment=alphago_9x9_imitation ||
    [[ $? == 1 && -d "$dir/records" ]]
}
imitation() {
  $shusaku train experiment=alphago_9x9_imitation dataset.records="$dir/records" run.dir="$dir/imitation" \
    run.minutes="${MINUTES_IMITATION:-60}"
}
rollout() {
  $shusaku rollout dataset.records="$dir/records" file="$dir/go.rollout" $go
}
reinforce() {
  $shusaku train experiment=alphago_9x9_reinforce policy.from="$dir/imitation" run.dir="$dir/reinforce" \
    run.minutes="${MINUTES_REINFORCE:-45}"
}
value() { # the supervised policy plays these games to their end, too: docs/alphago.md, "Where we differ from the paper"
  $shusaku train experiment=alphago_9x9_value value.supervised="$dir/imitation" value.reinforced="$dir/imitation" \
    learner.start="$dir/imitation" run.dir="$dir/value" run.minutes="${MINUTES_VALUE:-75}"
}
errors() {
  .venv/bin/python -m benchmarks.strength.value_error "$dir/value" --records "$dir/records" \
    --rollout "$dir/go.rollout" --positions "${POSITIONS:-500}" --record
}
table() {
  local anchor=${PLAYERS:+vp}
  .venv/bin/python -m benchmarks.strength.alphago_players "${NETWORKS:-$dir}" --seconds "$seconds" ${PLAYERS:-} \
    > "$dir/players_$seconds.json"
  .venv/bin/python -m benchmarks.strength.round_robin "$dir/players_$seconds.json" "$dir/games_$seconds.jsonl" \
    --pairs "${PAIRS:-20}" --at-once 2 --anchor "${anchor:-r}" --lead rvp --name "AlphaGo 9x9, $seconds s" \
    $go actors.count=1 match.opening_plies=4
}

stages=${*:-records imitation rollout reinforce value errors table}
for stage in $stages; do
  echo "== $stage"
  if [[ $stage == table ]]; then once "table_$seconds" table; else once "$stage" "$stage"; fi
done
