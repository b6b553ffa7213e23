"""Ours and the peers in one run, taking turns: what the README's table of peers is made of.

    python -m benchmarks.peers.compare [--games connect_four go_9x9] [--rounds 3] [--seconds 10]

Each plays 64 simulations a move with a network of the same size and random weights, one process of one thread a
core, all cores at once.  The peers' packages are installed into an environment of their own below `build/peers` the
first time.  Figures are medians over the rounds, ratios are taken within a round; a line of JSON for each game goes to
benchmarks/results/peers.jsonl, and the table to the terminal.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from benchmarks.lib import ROOT, record

PEERS = ROOT / "build" / "peers"
PACKAGES = ("jax==0.10.2", "mctx==0.0.71", "pgx==2.6.0")  # OpenSpiel is among our own test extras
GAMES: dict[str, dict[str, Any]] = {
    "connect_four": {"pgx": "connect_four", "open_spiel": "connect_four", "ours": ["game=connect_four"], "blocks": 5},
    "go_9x9": {"pgx": "go_9x9", "open_spiel": "go(board_size=9)", "ours": ["game=go", "game.size=9"], "blocks": 4},
}
RULES = ["search=puct", "search.reuse=false", "search.noise=false", "search.simulations=64", "network.filters=64"]
WHO = ("ours", "ours_int8", "mctx_pgx", "open_spiel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(GAMES), choices=list(GAMES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--who", nargs="+", default=list(WHO), choices=WHO)
    options = parser.parse_args()
    python = peers_environment()
    for game in options.games:
        rounds = [{who: measure(who, game, options.seconds, python) for who in options.who}
                  for _ in range(options.rounds)]
        record("peers.jsonl", f"python -m benchmarks.peers.compare --games {game}", game=game, rounds=rounds)
        print(table(game, rounds))


def measure(who: str, game: str, seconds: float, peers_python: Path) -> dict[str, float]:
    """Sums over one process a core, all at once."""
    facts = GAMES[game]
    if who.startswith("ours"):
        precision = ["inference.precision=int8"] if who == "ours_int8" else []
        command = [sys.executable, "-m", "shusaku", "bench", "selfplay", *facts["ours"], *RULES, *precision,
                   f"network.blocks={facts['blocks']}", "actors.games_per_actor=auto", f"bench.seconds={seconds}",
                   "--json"]
        return {name: value for name, value in last_json(run(command)).items() if isinstance(value, int | float)}
    python, script = (peers_python, "mctx_pgx") if who == "mctx_pgx" else (Path(sys.executable), "open_spiel_mcts")
    command = [str(python), str(Path(__file__).with_name(f"{script}.py")), "--game",
               facts["pgx" if who == "mctx_pgx" else "open_spiel"], "--blocks", str(facts["blocks"]),
               "--seconds", str(seconds)]
    cores = sorted(os.sched_getaffinity(0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment) for core in cores]
    said = [(process.communicate(), process.returncode) for process in started]
    answers = [last_json(checked(command, code, *texts)) for texts, code in said]
    return {name: sum(answer[name] for answer in answers) for name in answers[0]}


def table(game: str, rounds: list[dict[str, dict[str, float]]]) -> str:
    """Markdown: medians with their range, and how many times ours is faster within a round."""
    lines = [f"| {game}, 64 simulations a move | evaluations/s | searches/s (moves) | ours: times as many searches |",
             "| --- | --- | --- | --- |"]
    for who in rounds[0]:
        rates = {name: [played[who][name] for played in rounds] for name in ("evaluations_per_s", "searches_per_s")}
        ratios = [played["ours"]["searches_per_s"] / played[who]["searches_per_s"] for played in rounds
                  if "ours" in played]
        ratio = spread(ratios, ".2g") if ratios and who != "ours" else ""
        lines.append(f"| {who} | {spread(rates['evaluations_per_s'])} | {spread(rates['searches_per_s'])} | {ratio} |")
    return "\n".join(lines)


def spread(values: list[float], form: str = ",.0f") -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    return checked(command, done.returncode, done.stdout, done.stderr)


def checked(command: list[str], code: int, stdout: str, stderr: str) -> str:
    """What a command printed; the end of what it complained of where it failed."""
    if code:
        sys.exit(f"{' '.join(command)} ended with exit code {code}:\n{stderr[-2000:]}")
    return stdout


def last_json(text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return answer


def peers_environment() -> Path:
    """Python of the environment that holds the peers' packages."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


if __name__ == "__main__":
    main()
