"""Writes the tables of the results pages and of README from benchmarks/results/*: `make results`.

    python -m benchmarks.make_results            # writes
    python -m benchmarks.make_results --check    # exit code 1 if a page is not what its results say

A page holds its prose; between `<!-- generated: NAME -->` and `<!-- end -->` stands what the function NAME makes.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable

from benchmarks import alphago_results, server_results, strength_results
from benchmarks.lib import RESULTS, ROOT, read_results
from benchmarks.result_lines import (
    AMX,
    OLDER,
    Line,
    elo,
    median,
    newest,
    number,
    rate,
    share,
    sources,
    table,
)
from benchmarks.strength.methods import METHODS

PAGES = ("README.md", "docs/results/strength.md", "docs/results/speed.md", "docs/results/ablation.md",
         "docs/guides/refine.md", "docs/guides/gtp.md", "docs/alphago.md")
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

BUCKETS = ("begin_easy", "begin_medium", "begin_hard", "middle_easy", "middle_medium", "end_easy")
PLAYERS_OF_CONNECT_FOUR = {
    "policy": "network alone", "search_16": "16 simulations", "search_64": "64 simulations",
    "search_400": "400 simulations", "random": "random mover", "puct_64_uniform": "PUCT, 64 simulations, uniform prior",
    "uct_64": "plain UCT, 64 rollouts", "uct_400": "plain UCT, 400 rollouts",
}
GAME_NAMES = {
    "game=go game.size=9": "Go 9×9, positional superko", "game=go game.size=19": "Go 19×19", "game=othello": "Othello",
    "game=chess": "chess", "game=shogi": "shogi", "game=hex": "hex 11×11", "game=connect_four": "connect four",
    "game=tic_tac_toe": "tic-tac-toe",
}
OPPONENTS = {
    "first_checkpoint": "its own first checkpoint (5 minutes)", "uct_1000": "plain UCT with 1,000 rollouts",
    "gnugo_1": "GNU Go 3.8, level 1", "random": "a random mover",
    "fairy_stockfish": "Fairy-Stockfish, skill level −20, 1,000 nodes a move",
}
PEERS = {
    "ours": "**Shusaku**, bf16", "ours_int8": "Shusaku, int8",
    "open_spiel": "OpenSpiel's MCTS around our network, batch 1, its cache on", "mctx_pgx": "mctx + pgx, batch 64",
}
WAYS_WITH_QUEENS = {
    "tree": "tree, with its defaults", "chain": "a plain chain: each answer is refined, whatever its score",
    "best_of": "best of 65 first answers", "hill_climbing": "hill climbing: a refinement is kept unless it is worse",
}
CONNECT_FOUR_SELF_PLAY = ("selfplay", "game=connect_four", "bf16")
GO_SELF_PLAY = ("selfplay", "game=go", "network=tutorial", "bf16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page would change")
    options = parser.parse_args()
    changed = []
    for name in PAGES:
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]().strip() + "\n" + found[3], before)
        if after != before:
            changed.append(name)
            if not options.check:
                page.write_text(after, encoding="utf-8")
    if changed:
        print("not what the results say:" if options.check else "written:", ", ".join(changed))
    sys.exit(bool(changed) and options.check)


def match_row(label: str, line: Line) -> tuple[str, ...]:
    run = line["runs"][0]
    results = (str(run[key]) for key in ("games", "wins", "draws", "losses"))
    return (label, *results, share(run["score"]), elo(run))


MATCH_HEADER = ("against", "games", "won", "drawn", "lost", "score", "Elo (95 %)")

# Strength.


def connect_four() -> str:
    line = newest("connect_four.jsonl", name="20 minutes")
    players = line["runs"][0] | line["runs"][0]["baselines"]
    rows = []
    for key, label in PLAYERS_OF_CONNECT_FOUR.items():
        measured = players[key]
        cells = [f"**{measured['optimal']:.3f}**", *(f"{measured['by_bucket'][bucket]:.3f}" for bucket in BUCKETS)]
        rows.append((label, *cells))
    header = ("connect four", "optimal", *(bucket.replace("_", " ") for bucket in BUCKETS))
    return f"{table(header, rows)}\n\n{sources([line])}"


def matches(experiment: str, names: dict[str, str], machine: str = AMX, header: str = "against") -> str:
    lines = {name: newest(f"{experiment}.jsonl", name=name, machine=machine) for name in names}
    rows = [match_row(label, lines[name]) for name, label in names.items()]
    return f"{table((header, *MATCH_HEADER[1:]), rows)}\n\n{sources(lines.values())}"


def go() -> str:
    names = ("first_checkpoint", "uct_1000", "gnugo_1")
    return matches("go_9x9", {name: OPPONENTS[name] for name in names}, machine="")


def go_shipped() -> str:
    names = ("uct_1000", "gnugo_1")
    return matches("shipped_go", {name: OPPONENTS[name] for name in names}, machine="")


ENGINES = {  # name of the match -> our network, the experiment that it is trained by here, the opponent
    "gnugo_1": ("Go 9×9, first shipped", "", "GNU Go 3.8, level 1"),
    "gnugo_10": ("Go 9×9, first shipped", "", "GNU Go 3.8, level 10"),
    "minishogi_fairy": ("minishogi", "minishogi", "Fairy-Stockfish 11.1, skill level 0, 1,000 nodes"),
    "rhino": ("Othello", "othello", "gtp-rhino, level 1"),
    "stockfish": ("chess", "chess_small", "Stockfish 15.1, skill level 0, 1,000 nodes"),
    "shogi_fairy": ("shogi", "shogi_small", "Fairy-Stockfish 11.1, skill level 0, 1,000 nodes"),
    "gpsusi": ("shogi", "shogi_small", "gpsusi, 0.1 s a move"),
}


def engines() -> str:
    """Our default networks against each engine that they have met."""
    newest_lines = {line["name"]: line for line in read_results("default_networks.jsonl")}
    rows, lines = [], []
    for name, (network, experiment, opponent) in ENGINES.items():
        match, training = newest_lines.get(name), newest_lines.get(f"training of {experiment}")
        if match is None:
            continue
        run = training["runs"][0] if training else None
        learned = f"{run['seconds'] / 60:.0f} minutes, {run['steps']:,} steps" if run else "see above"
        rows.append((network, learned, *match_row(opponent, match)))
        lines += [line for line in (training, match) if line and line not in lines]
    return f"{table(('our network', 'training', *MATCH_HEADER), rows)}\n\n{sources(lines)}"


def go_defaults() -> str:
    return matches("go_against_baseline", {"go_9x9 against go_9x9_baseline": "`go_9x9_baseline`, an hour as well"})


def othello() -> str:
    names = {
        "uct_1000": "64, the first 100 openings", "uct_1000_400": "64",
        "uct_1000_mean": "64, `first.search.average_symmetries=true`", "uct_1000_200_simulations": "200",
        "uct_1000_as_many_simulations": "1,000, as many as its opponent",
        "uct_1000_as_many_simulations_mean": "1,000, `first.search.average_symmetries=true`",
    }
    first = matches("othello_6x6", {"first_checkpoint": OPPONENTS["first_checkpoint"]})
    return f"{matches('othello_6x6', names, header='its own simulations')}\n\n{first}"


def minishogi() -> str:
    names = ("random", "uct_1000", "fairy_stockfish", "first_checkpoint")
    return matches("minishogi", {name: OPPONENTS[name] for name in names})


def chess() -> str:
    return matches("chess_small", {"first_checkpoint": OPPONENTS["first_checkpoint"]})


def int8() -> str:
    played = matches("int8", {"int8 against auto": "the same network in bf16"})
    lines = [newest("int8.jsonl", name=f"20 minutes with {precision}") for precision in ("int8", "auto")]
    rows = []
    for name, line in zip(("int8", "auto (bf16)"), lines, strict=True):
        strength = line["runs"][0]
        rows.append((name, f"{strength['search_64']['optimal']:.3f}", f"{strength['policy']['optimal']:.3f}"))
    header = ("20 minutes of training with", "optimal with 64 simulations", "by the network alone")
    return f"{played}\n\n{table(header, rows)}\n\n{sources(lines)}"


def quoted(*names: str) -> str:
    """Figures that stood in README alone before results had a provenance: the figure as it was written."""
    lines = [next(line for line in read_results("quoted.jsonl") if line["name"] == name) for name in names]
    rows = ((line["what"], line["figure"], line["machine"]) for line in lines)
    return f"{table(('what', 'figure', 'machine'), rows)}\n\n{sources(lines)}"


def strength_quoted() -> str:
    return quoted("connect_four_60", "connect_four_casc", "tic_tac_toe", "tic_tac_toe_others",
                  "go_defaults_other_openings", "go_defaults_without", "othello_other_openings")


def queens() -> str:
    """Each way a row, each number of seeds a column."""
    lines = [newest("queens.jsonl", machine="", name=name) for name in ("200 seeds", "5,000 seeds")]
    rows = []
    for way, label in WAYS_WITH_QUEENS.items():
        found = [line["ways"][way] for line in lines]
        rows.append((label, *(f"{share(one['share'])} ({share(one['low'])} to {share(one['high'])})" for one in found)))
    header = ("8 queens, 64 refinements", *(f"solved of {line['seeds']:,} seeds (95 %)" for line in lines))
    return f"{table(header, rows)}\n\n{sources(lines)}"


# Speed.


def parts() -> str:
    """One part a row, on both machines."""
    rows, used = [], []

    def add(label: str, file: str, words: tuple[str, ...], key: str, unit: str,
            older: tuple[str, tuple[str, ...]] | None = None, text: Callable[[float], str] = number) -> None:
        line = newest(file, *words)
        used.append(line)
        second = ""
        if older:
            used.append(newest(older[0], *older[1], machine=OLDER))
            second = rate(used[-1], key, text)
        rows.append((label, f"{rate(line, key, text)} {unit}".strip(), second))

    puct, gumbel = ("bench search", "search=puct"), ("bench search", "search=gumbel")
    add("rules, random games to the end, one core", "parts.jsonl", ("bench rules",), "moves_per_s", "moves/s",
        ("parts.jsonl", ("bench rules",)))
    add("tree only, PUCT, 64 simulations, pseudo-random evaluator, no cache, one core", "parts.jsonl", puct,
        "simulations_per_s", "simulations/s", ("parts.jsonl", puct))
    add("tree only, Gumbel, the same", "parts.jsonl", gumbel, "simulations_per_s", "simulations/s",
        ("parts.jsonl", gumbel))
    self_play = ("parts.jsonl", ("selfplay",))
    add("self-play, 64 filters × 5 blocks, PUCT with 64 simulations, two processes of one thread, cache on",
        "self_play.jsonl", CONNECT_FOUR_SELF_PLAY, "searches_per_s", "searches/s", self_play)
    add("of it: evaluations", "self_play.jsonl", CONNECT_FOUR_SELF_PLAY, "evaluations_per_s", "/s", self_play)
    add("of it: against the network alone in the same run", "self_play.jsonl", CONNECT_FOUR_SELF_PLAY, "of_raw", "",
        self_play, share)
    int8_words = ("selfplay", "game=connect_four", "int8")
    add("the same with `inference.precision=int8`", "self_play.jsonl", int8_words, "searches_per_s", "searches/s")
    add("of it: against the network alone", "self_play.jsonl", int8_words, "of_raw", "", None, share)
    add("tic-tac-toe, 32 filters × 2 blocks, the same search", "self_play.jsonl", ("game=tic_tac_toe",),
        "searches_per_s", "searches/s")
    add("Go 9×9, 64 filters × 4 blocks and 17 planes, the same search", "self_play.jsonl", GO_SELF_PLAY,
        "searches_per_s", "searches/s", ("games.jsonl", ("selfplay", "game=go")))
    add("of it: evaluations", "self_play.jsonl", GO_SELF_PLAY, "evaluations_per_s", "/s")
    add("of it: against the network alone in the same run", "self_play.jsonl", GO_SELF_PLAY, "of_raw", "", None, share)
    go_int8 = ("selfplay", "game=go", "int8")
    add("Go 9×9 in int8", "self_play.jsonl", go_int8, "searches_per_s", "searches/s")
    add("of it: against the network alone", "self_play.jsonl", go_int8, "of_raw", "", None, share)
    inference = [newest("parts.jsonl", "bench inference", machine=machine) for machine in (AMX, OLDER)]
    cells = [network_alone(line) for line in inference]
    rows.append(("network alone, 64 × 5, batch 64, one core; loading new weights", *cells))
    used += inference
    learner, replay = ("bench learner",), ("bench replay",)
    add("learner, 64 × 5, batch 256, one thread", "parts.jsonl", learner, "rows_per_s", "rows/s",
        ("parts.jsonl", learner))
    add("sampling ready mini-batches of 256, one core", "parts.jsonl", replay, "sampled_per_s", "rows/s",
        ("parts.jsonl", replay))
    add("appending games with full validation, one core", "parts.jsonl", replay, "appended_per_s", "rows/s",
        ("parts.jsonl", replay))
    header = ("what (connect four unless said otherwise)", "2 cores at 2.6 GHz with AMX, bf16",
              "2 cores at 2.5 GHz (Cascade Lake), fp32")
    return f"{table(header, rows)}\n\n{sources(used)}"


def network_alone(line: Line) -> str:
    """OpenVINO's best precision at batch 64, and how long new weights take."""
    rows = [row for row in line["runs"][0]["rows"] if row["batch"] == 64 and row["runtime"] == "openvino"
            and row["precision"] in ("bf16", "fp32")]
    best = max(rows, key=lambda row: row["positions_per_s"])
    return f"{number(best['positions_per_s'])} positions/s; {best['load_ms']:.1f} ms"


def games() -> str:
    rows, used = [], []
    for words, label in GAME_NAMES.items():
        rules = newest("games.jsonl", f"bench rules {words}")
        tree = newest("games.jsonl", f"bench search {words}")
        used += [rules, tree]
        others = f"{number(median(rules, 'open_spiel_moves_per_s'))} ({median(rules, 'times_open_spiel'):.0f} times)"
        rows.append((label, number(median(rules, "moves_per_s")), others, number(median(tree, "simulations_per_s")),
                     f"{median(rules, 'copy_ns'):.0f} ns", f"{median(rules, 'observe_ns'):.0f} ns"))
    header = ("game", "rules, moves/s", "OpenSpiel in the same run", "tree only, PUCT, 64 simulations/s", "copy",
              "observation")
    return f"{table(header, rows)}\n\n{sources(used)}"


def peers() -> str:
    found, used = [], []
    for game, label in (("connect_four", "connect four"), ("go_9x9", "Go 9×9")):
        line = next(line for line in reversed(read_results("peers.jsonl")) if line["game"] == game)
        used.append(line)
        rows = []
        for player, name in PEERS.items():
            keys = ("evaluations_per_s", "searches_per_s")
            rates = [[played[player][key] for played in line["rounds"]] for key in keys]
            times = times_faster(line["rounds"], player)
            ratio = f"**{digits(statistics.median(times))}** ({digits(min(times))} – {digits(max(times))})"
            rows.append((name, *(median_and_range(values) for values in rates), "" if player == "ours" else ratio))
        found.append(table((label, "evaluations/s", "searches/s", "ours: times as many"), rows))
    return "\n\n".join([*found, sources(used)])


def times_faster(rounds: list[dict[str, Line]], player: str) -> list[float]:
    """How many times as many searches a second ours makes, in each round."""
    return [played["ours"]["searches_per_s"] / played[player]["searches_per_s"] for played in rounds]


def digits(value: float) -> str:
    """Two significant digits."""
    return f"{value:.2g}"


def median_and_range(values: list[float]) -> str:
    return f"{number(statistics.median(values))} ({number(min(values))} – {number(max(values))})"


def speed_quoted() -> str:
    return quoted("yardstick", "redis_append", "redis_ingest", "ray_small", "ray_small_casc", "ray_default",
                  "interference", "first_game", "first_game_casc", "memory_train", "memory_local",
                  "perft_chess", "perft_shogi", "open_spiel_other")


# The ablation.


def ablation() -> str:
    """Mean over the seeds and half of their spread, in per cent of optimal moves: PUCT with 64 simulations / alone."""
    found = read_results("ablation.jsonl")
    cuts = sorted({line["millions"] for line in found})
    rows = []
    for method in [name for name in METHODS if any(line["method"] == name for line in found)]:
        seeds = {line["seed"] for line in found if line["method"] == method}
        cells = []
        for cut in cuts:
            chosen = [line for line in found if (line["method"], line["millions"]) == (method, cut)]
            measured = [[100 * line[key] for line in chosen] for key in ("search_64", "policy") if chosen]
            cells.append(" / ".join(map(mean_and_spread, measured)))
        rows.append((method if method == "plain" else f"+ {method}", str(len(seeds)), *cells))
    return f"{table(('method', 'seeds', *(f'{cut:g} M' for cut in cuts)), rows)}\n\n{sources(found)}"


def mean_and_spread(values: list[float]) -> str:
    mean = f"{statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {(max(values) - min(values)) / 2:.1f}"


# README.


def readme_results() -> str:
    """Six results: game, hardware, minutes, result, link."""
    connect_four_on, connect_four_minutes, connect_four, alone = strength_results.best_of_the_study(
        "connect_four_twenty.yaml")
    tic_tac_toe = next(line for line in read_results("quoted.jsonl") if line["name"] == "tic_tac_toe")
    every_game, at_equal_time = "strength.md#every-game-after-equal-minutes", "ablation.md#at-equal-time"
    othello_on, othello_minutes, othello = strength_results.of_the_longest("othello_6x6", ("UCT 1000", "64"))
    go_on, go_minutes, level_1, level_10 = strength_results.of_the_longest(
        "go_9x9", ("GNU Go 1", "64"), ("GNU Go 10", "400"))
    minishogi_on, minishogi_minutes, minishogi = strength_results.of_the_longest(
        "minishogi", ("Fairy-Stockfish 0", "64"))
    chess_on, chess_minutes, random_mover, stockfish = strength_results.of_the_longest(
        "chess_small", ("a random mover", "64"), ("Stockfish 1350", "64"))
    rows = (
        ("tic-tac-toe", "Cascade Lake", "3",
         f"{tic_tac_toe['figure'].split(' and ')[0]} mistakes over all 4,520 positions", "strength.md#tic-tac-toe"),
        ("connect four", connect_four_on, f"{connect_four_minutes:g}",
         f"{share(connect_four)} optimal moves with 64 simulations, {share(alone)} by the network alone "
         "(three seeds)", at_equal_time),
        ("Othello 6×6", othello_on, f"{othello_minutes:g}",
         f"{share(othello)} with 64 simulations against plain UCT with 1,000", every_game),
        ("Go 9×9", go_on, f"{go_minutes:g}",
         f"{share(level_1)} against GNU Go 3.8 at level 1 with 64 simulations, "
         f"{share(level_10)} at level 10 with 400", every_game),
        ("minishogi", minishogi_on, f"{minishogi_minutes:g}",
         f"{share(minishogi)} with 64 simulations against Fairy-Stockfish at skill level 0 with 1,000 nodes",
         every_game),
        ("chess, a small network", chess_on, f"{chess_minutes:g}",
         f"{share(random_mover)} against a random mover, {share(stockfish)} against Stockfish at an Elo of 1350",
         every_game),
    )
    linked = ((*row[:-1], f"[games and commands](docs/results/{row[-1]})") for row in rows)
    return table(("game", "2 cores of", "minutes", "result", ""), linked)


def readme_speeds() -> str:
    """Four speeds beside the peers'."""
    rows = []
    for words, label in (("game=connect_four", "rules of connect four"), ("game=chess", "rules of chess")):
        line = newest("games.jsonl", f"bench rules {words}")
        others = number(median(line, "open_spiel_moves_per_s"))
        rows.append((f"{label}, one core", f"{number(median(line, 'moves_per_s'))} moves/s", f"OpenSpiel {others}",
                     f"{median(line, 'times_open_spiel'):.0f}"))
    for game, label in (("connect_four", "self-play of connect four"), ("go_9x9", "self-play of Go 9×9")):
        rounds = next(line for line in reversed(read_results("peers.jsonl")) if line["game"] == game)["rounds"]
        rates = {player: statistics.median(played[player]["searches_per_s"] for played in rounds) for player in PEERS}
        times = [digits(statistics.median(times_faster(rounds, player))) for player in ("open_spiel", "mctx_pgx")]
        others = f"OpenSpiel's MCTS {number(rates['open_spiel'])}, mctx + pgx {number(rates['mctx_pgx'])}"
        rows.append((f"{label}, two cores", f"{number(rates['ours'])} searches/s", others, " and ".join(times)))
    return table(("what", "Shusaku", "others, same machine, same run", "times"), rows)


def readme_output() -> str:
    """Two commands with what they printed in the recorded run of the moving picture."""
    demo = json.loads((RESULTS / "demo.json").read_text(encoding="utf-8"))
    commands = (("train", demo["train"]), ("match", demo["match"]))
    shown = [f"```\n$ .venv/bin/{demo[f'{name}_command']}\n{text.strip()}\n```" for name, text in commands]
    return "\n".join("<!-- not run: the run of the moving picture took minutes -->\n" + block for block in shown)


BLOCKS: dict[str, Callable[[], str]] = {
    block.__name__: block
    for block in (
        connect_four, go, go_shipped, go_defaults, engines, othello, minishogi, chess, int8, queens, strength_quoted,
        parts,
        games, peers, speed_quoted, ablation, readme_output, readme_results, readme_speeds,
        *alphago_results.BLOCKS, *server_results.BLOCKS, *strength_results.BLOCKS,
    )
}

if __name__ == "__main__":
    main()
