#!/usr/bin/env bash
# The tree alone at 64 simulations, another revision and this checkout in turn: tree.sh REVISION [GAME] [POLICY] [ROUNDS].
# Prints simulations/s of each (highest, median), then instructions a simulation and the share of them in allocation
# (valgrind's callgrind, where it is installed).
set -euo pipefail
cd "$(dirname "$0")/../.."
revision=$1 game=${2:-connect_four} policy=${3:-puct} rounds=${4:-8}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/source"
git archive "$revision" common/core | tar x -C "$folder/source"
build() {  # NAME CORE ARCHITECTURE
  g++ -std=c++20 -O3 "-march=$3" -ffp-contract=off -flto=auto -I "$2" benchmarks/speed/tree.cpp -o "$folder/$1"
}
build then "$folder/source/common/core" native
build now common/core native
case $game in go) count=300000 ;; *) count=1500000 ;; esac
for _ in $(seq "$rounds"); do
  for which in then now; do echo "$which $("$folder/$which" "$game" "$policy" "$count")"; done
done | sort -k1,1 -k2,2n | awk '{all[$1] = all[$1] " " $2}
  END {for (which in all) {n = split(all[which], v, " "); print which, "highest", v[n], "median", v[int((n + 1) / 2)]}}'
if command -v valgrind > /dev/null; then
  build then "$folder/source/common/core" haswell  # valgrind knows no AVX-512
  build now common/core haswell
  for which in then now; do
    (cd "$folder" && valgrind --tool=callgrind --callgrind-out-file="$which.out" "./$which" "$game" "$policy" 60000 2> /dev/null > /dev/null)
    callgrind_annotate --threshold=100 --show-percs=no "$folder/$which.out" | tr -d , | awk -v which="$which" '
      /PROGRAM TOTALS/ {total = $1}
      /malloc\.c:|operator (new|delete)/ {allocation += $1}
      END {printf "%s: %.0f instructions a simulation, %.1f %% of them in allocation\n", which, total / 66000, 100 * allocation / total}'
  done
fi
