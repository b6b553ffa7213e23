"""The tables of docs/alphago.md: what each stage of AlphaGo's line reached on 9x9, beside the paper's figures."""

from collections.abc import Callable

from benchmarks.lib import read_results
from benchmarks.result_lines import Line, newest, number, rate, share, sources, table
from benchmarks.strength.alphago_players import PAPER

PARTS = {
    "rvp": "rollouts, value and policy network", "vp": "value and policy network", "rp": "rollouts and policy network",
    "rv": "rollouts and value network", "v": "value network", "r": "rollouts", "p": "policy network, no search",
    "GNU Go 1": "GNU Go 3.8, level 1", "GNU Go 10": "GNU Go 3.8, level 10",
    "go_9x9": "our first `go_9x9` network that shipped, PUCT",
}
ESTIMATES = {
    "value": "value network", "rollout": "100 rollouts of the rollout policy", "uniform": "100 uniform rollouts",
    "supervised": "100 games of the supervised policy", "reinforced": "100 games of the reinforced policy",
}


def alphago_stages() -> str:
    """One stage a row: what came out, our bound, and the paper's figure on 19 x 19."""
    games = newest("expert_games.jsonl", machine="")
    imitation = newest("imitation.jsonl", machine="", name="go_imitation")
    rollout = newest("rollouts.jsonl", machine="", name="learned, go 9x9, by the line")
    rows, used = [], [games, imitation, rollout]
    easy = sum(games["by_level"][level]["games"] for level in ("1", "2", "3"))
    rows.append(("expert games", f"{games['games']:,} of GNU Go, {easy:,} of them at levels 1 to 3",
                 "29.4 million positions of people"))
    rows.append(("policy from experts", f"top-1 {share(imitation['test']['top_1'])}, top-5 "
                 f"{share(imitation['test']['top_5'])} on {imitation['test']['positions']:,.0f} positions of unseen "
                 f"games, after {imitation['minutes']:g} minutes", "top-1 57.0 %"))
    last = rollout["runs"][0]["passes"][-1]
    rows.append(("rollout policy", f"top-1 {share(last['top1'])} on unseen games", "top-1 24.2 %"))
    for file, row in (("reinforce.jsonl", _reinforce), ("value_rows.jsonl", _value)):
        lines = read_results(file)
        if lines:
            rows.append(row(lines))
            used += lines[-2:] if file == "value_rows.jsonl" else lines[-1:]
    return f"{table(('stage', 'here, 9×9', 'the paper, 19×19'), rows)}\n\n{sources(used)}"


def _reinforce(lines: list[Line]) -> tuple[str, str, str]:
    line = lines[-1]
    return ("policy gradient", f"{share(line['score'])} ({share(line['score_low'])} to {share(line['score_high'])}) of "
            f"{line['games']} games against its start, after {line['updates']:,} updates", "80 % after 10,000 updates")


def _value(lines: list[Line]) -> tuple[str, str, str]:
    newest_of = {line["rows"]: line for line in lines}
    texts = [f"{label}: {line['test']:.3f} on unseen games, {line['train']:.3f} on others"
             for rows, label in (("one", "one position a game"), ("all", "all positions"))
             if (line := newest_of.get(rows))]
    one = newest_of["one"]
    return ("value network, (z − v)²", f"{'; '.join(texts)}; {one['games']:,} games in {one['minutes']:g} minutes",
            "0.234 and 0.226 on its own scale; all positions: 0.37 and 0.19")


def alphago_games() -> str:
    """GNU Go's games by level, and what one takes."""
    line = newest("expert_games.jsonl", machine="")
    rows = [(level, f"{found['games']:,}", f"{found['cpu_s_a_game']:.2f} s")
            for level, found in line["by_level"].items()]
    return f"{table(('level of GNU Go', 'games', 'processor time a game'), rows)}\n\n{sources([line])}"


def alphago_speed() -> str:
    """Rollouts, the import of chess games and the chess policy, and what a second thread adds to the search."""
    rollouts = {name: newest("rollouts.jsonl", machine="", name=f"speed, {name}") for name in (
        "go 9x9, policy", "go 9x9, uniform", "go 19x19, policy", "go 19x19, uniform")}
    games = newest("imitation.jsonl", machine="", name="chess_import")
    chess = newest("imitation.jsonl", machine="", name="chess_imitation")
    threads = {with_file: next(line for line in reversed(read_results("analysis.jsonl"))
                               if line.get("name") == "alphago_speed" and ("--rollout" in line["command"]) == with_file)
               for with_file in (True, False)}
    rows = [(f"rollouts of {name.replace('x', '×')}, one core", f"{rate(line, 'moves_per_s')} moves/s")
            for name, line in rollouts.items()]
    offered = games["games"] + games["duplicates"] + games["rejected"]
    taken = f"{games['seconds']:.0f} s, {100 * games['share_taken']:.2f} % taken"
    rows.append((f"import of {offered:,} chess games", taken))
    rows.append(("chess policy from them, 64 × 5, an hour",
                 f"top-1 {share(chess['test']['top_1'])} on unseen games"))
    for with_file, line in threads.items():
        ratios = line["runs"][0]["threads_ratio"]
        kind = "of the rollout policy" if with_file else "uniform"
        rows.append((f"simulations/s of two threads, of one, rollouts {kind}",
                     ", ".join(f"{name} {value:.2f}" for name, value in ratios.items())))
    match = newest("rollouts.jsonl", machine="", name="UCT-1,000 against uniform rollouts, go 9x9, by the line")
    rows.append(("UCT with 1,000 rollouts of the policy against UCT with 1,000 uniform ones",
                 f"{share(match['runs'][0]['score'])} of {match['runs'][0]['games']} games"))
    used = [*rollouts.values(), games, chess, *threads.values(), match]
    return f"{table(('what', 'measured'), rows)}\n\n{sources(used)}"


def alphago_errors() -> str:
    """Mean of (z - v)^2 by how many moves were made, one estimate a column."""
    line = newest("value_error.jsonl", machine="")
    names = [name for name in ESTIMATES if name in line]
    stages = list(line[names[0]]["by_moves"])
    rows = [(f"{int(stage)} to {int(stage) + 9}", *(f"{line[name]['by_moves'][stage]:.3f}" for name in names))
            for stage in stages]
    rows.append(("**all**", *(f"**{line[name]['error']:.3f}** ± {line[name]['standard_error']:.3f}"
                              for name in names)))
    return f"{table(('moves made', *(ESTIMATES[name] for name in names)), rows)}\n\n{sources([line])}"


def alphago_elo() -> str:
    """The round robin at 0.1 s a move, the strongest first."""
    return _elo("0.1")


def alphago_elo_slow() -> str:
    """The round robin at 1 s a move."""
    return _elo("1")


def _elo(seconds: str) -> str:
    line = newest("round_robin.jsonl", machine="", name=f"AlphaGo 9x9, {seconds} s")
    rows = []
    for player in sorted(line["players"], key=lambda player: -player["elo"]):
        name = player["name"]
        paper = f"{PAPER[name]:,}" if name in PAPER else ""
        rows.append((f"**{name}**" if name in PAPER else name, PARTS[name],
                     f"{player['elo']:+.0f} ({player['low']:+.0f} to {player['high']:+.0f})", str(player["games"]),
                     paper))
    header = ("player", "its parts", "Elo, 95 % interval", "games", "the paper's Elo, 19×19")
    leads = ", ".join(f"{name} {lead['elo']:+.0f} ({lead['low']:+.0f} to {lead['high']:+.0f})"
                      for name, lead in line["leads"].items())
    return f"{table(header, rows)}\n\nElo of {line['lead']} above each other player: {leads}.\n\n{sources([line])}"


def alphago_filters() -> str:
    """Accuracy against the time of one position, a width a row."""
    newest_of = {line["filters"]: line for line in read_results("filters.jsonl")}
    rows = [(str(filters), share(line["top_1"]), share(line["top_5"]), f"{line['policy_loss']:.3f}",
             f"{number(line['us_a_position'])} µs") for filters, line in sorted(newest_of.items())]
    header = ("filters", "top-1 on unseen games", "top-5", "−log p", "a position, one core, batches of 64")
    return f"{table(header, rows)}\n\n{sources(newest_of.values())}"


BLOCKS: tuple[Callable[[], str], ...] = (
    alphago_stages, alphago_games, alphago_speed, alphago_errors, alphago_elo, alphago_elo_slow, alphago_filters)
