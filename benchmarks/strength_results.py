"""Tables about methods at equal time, many and one; every game after its minutes, and its Elo on the way; points."""

import re
import shlex
import statistics
from collections import defaultdict
from collections.abc import Callable
from itertools import groupby

import yaml

from benchmarks.lib import ROOT, read_results
from benchmarks.result_lines import Line, number, processor, share, sources, table
from benchmarks.tune.foreign_load import MOST
from benchmarks.tune.screening import effects, screening_runs, standard_error
from benchmarks.tune.study import Study, digest_of, processor_of
from shusaku.actors.arena.arena import Tally

RUN = re.compile(r"(?P<game>\w+) (?P<minutes>[\d.]+) minutes seed (?P<seed>\d+)")
TABLE_FILE = "strength_table.jsonl"
CURVE = ", Elo over minutes"
EXACTLY, UNSOLVED_EXACTLY = " exactly", " exactly, nothing solved"  # how a line of that table measures
UNSOLVED = ("search.solved_empties=0", "self_play.solved_empties=-1")  # the same training, and no solver at play
LEAST_MINUTES = 10  # of a study's run that stands beside those of benchmarks/strength/all.sh
FIRST_WINS = {"hex_7", "go_5x5"}  # with best play, so that a second player can be asked for less
MATCH = re.compile(r", (?P<simulations>\d+) simulations against (?P<reference>.+)")

ALSO_MEASURED = {"policy.optimal": "network alone", "search_64.optimal": "64 simulations",
                 "search_400.optimal": "400 simulations"}  # at the end of a run; the oldest lines have none


def screenings() -> str:
    """What each setting of each screening is worth, once all of its runs are made."""
    texts = []
    undisturbed = _undisturbed()
    for name, study in _screens():
        found = [_newest(undisturbed, study, words, seed) for words, seed in study.screening()]
        lines = [line for line in found if line is not None]
        if not lines:
            continue
        what = f"`{' '.join(study.base)}`, {study.minutes:g} minutes, {study.metric}; {name}"
        if len(lines) < len(found):
            texts.append(f"{what}: {len(lines)} of {len(found)} runs are made.\n\n{sources(lines)}")
            continue
        values = [100 * line["value"] for line in lines]
        measured = {ALSO_MEASURED.get(study.metric, study.metric): values} | {
            heading: [100 * line["final"][name] for line in lines] for name, heading in ALSO_MEASURED.items()
            if name != study.metric and all(name in line.get("final", ()) for line in lines)}
        runs = screening_runs(len(study.screen))
        worth = {heading: effects(runs, column) for heading, column in measured.items()}
        mean_rows = statistics.mean(line["rows"] for line in lines)
        more_rows = effects(runs, [100 * line["rows"] / mean_rows for line in lines])
        by_metric = next(iter(worth.values()))
        errors = {heading: standard_error(column) for heading, column in worth.items()}
        header = ("setting", *(f"{heading}: points more, ± {error:.{1 if error >= 0.1 else 2}f}"
                               for heading, error in errors.items()), "rows more")
        rows = [(f"`{' '.join(study.screen[setting])}`", *(f"{column[setting]:+.1f}" for column in worth.values()),
                 f"{more_rows[setting]:+.0f} %")
                for setting in sorted(range(len(study.screen)), key=lambda setting: -by_metric[setting])]
        texts.append(f"{what}; {len(lines)} runs, {min(values):.1f} to {max(values):.1f} %.\n\n"
                     f"{table(header, rows)}\n\n{sources(lines)}")
    return "\n\n".join(texts)


def played_labels() -> str:
    """Errors of the labels of self-play against exact results, by plies, for each network that was asked."""
    found = read_results("played_labels.jsonl")
    shown = {"z": "z", "q": "q of the search", "L0.8": "returns, λ 0.8", "L0.9": "0.9", "L0.95": "0.95",
             "run": "the label", "network": "network alone"}
    header = ("plies", "positions", *shown.values(), "first choice", "played")
    texts = []
    for line in found:
        rows = [(part["plies"] if part["plies"] == "all" else f"from {part['plies']}", str(part["positions"]),
                 *(f"{part['errors'][name][0]:.3f} ± {part['errors'][name][1]:.3f}" for name in shown),
                 *("" if part[name] is None else share(part[name]) for name in ("first_choice", "played")))
                for part in line["lines"]]
        drawn = f"{line['games']} games, {share(line['draws'])} of them drawn"
        texts.append(f"`{line['command']}`: {drawn}.\n\n{table(header, rows)}")
    return "\n\n".join([*texts, sources(found)])


def fits() -> str:
    """What a network learns from one run's games, beside the run's network as it is, with other settings."""
    found = read_results("fits.jsonl")
    header = ("begins with", "settings of play and learning", "steps", "network alone", "64 simulations",
              "400 simulations", "squared error of its value")
    parts = []
    for run, group in groupby(found, key=lambda line: line.get("run") or shlex.split(line["command"])[3]):
        rows, before = [], None
        for line in group:
            begins = "anew" if line["anew"] else "the run's network"
            if line["before"] and _fitted(line["before"]) != before:
                before = _fitted(line["before"])
                rows.append((begins, "without a step", "0", *before))
            words = f"`{' '.join(line['words'])}`" if line["words"] else "as the run's"
            rows.append((begins, words, number(line["steps"]), *_fitted(line["after"])))
        parts += [f"`{run}`:", table(header, rows)]
    return "\n\n".join([*parts, sources(found)])


def _fitted(values: Line) -> tuple[str, ...]:
    shares = (f"{values[key]:.1f} %" if key in values else "" for key in ("alone", "search_64", "search_400"))
    return (*shares, f"{values['value_error']:.3f}")


def _screens() -> list[tuple[str, Study]]:
    """The studies that are screenings, by their files.  Others are not read as studies: that composes their runs."""
    paths = sorted((ROOT / "benchmarks" / "tune" / "studies").glob("*.yaml"))
    return [(path.name, Study.read(path)) for path in paths if "screen" in yaml.safe_load(path.read_text())]


def _newest(runs: list[Line], study: Study, words: list[str], seed: int) -> Line | None:
    """The newest of these runs that is of a study with these words and this seed."""
    identity = study.identity(words, seed)
    return next((line for line in reversed(runs) if identity.items() <= line.items()), None)


def _undisturbed() -> list[Line]:
    return [line for line in read_results("study_runs.jsonl") if line["foreign_cores"] <= MOST]


def at_equal_time() -> str:
    """What each trial of each study reached, and its difference to the runs of the same seeds that changed nothing."""
    screened = [study.identity(words, seed) for _, study in _screens() for words, seed in study.screening()]
    runs = [line for line in _undisturbed() if not any(identity.items() <= line.items() for identity in screened)]
    studies: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in runs:
        computer = processor_of(line["machine"])
        studies[line["base_settings"], f"{line['minutes']:g} minutes", computer, line["metric"]].append(line)
    rows = []
    for (base, *how), lines in studies.items():
        study = ", ".join([f"`{' '.join(lines[0]['base'])}` on {lines[0]['date']}", *how])
        unchanged = {line["seed"]: line for line in lines if line["settings"] == base}
        if not unchanged:
            rows.append((f"**as it was**, not run: {study}", *[""] * 8))
        trials: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            trials[line["settings"]].append(line)
        for made in sorted(trials.values(), key=lambda lines: (
                lines[0]["settings"] != base, -statistics.median(run["value"] for run in lines))):
            words = "" if made[0]["settings"] == base else " ".join(made[0]["words"])
            gains = [100 * (run["value"] - unchanged[run["seed"]]["value"]) for run in made if run["seed"] in unchanged]
            middle = statistics.median(gains) if gains and words else None
            rows.append((
                f"`{words}`" if words else f"**as it was**: {study}",
                str(len(made)), *(number(statistics.median(run[key] for run in made))
                                  for key in ("evaluations", "rows", "steps")),
                _final(made, "policy.optimal"), _spread([run["value"] for run in made]),
                _final(made, "search_400.optimal"),
                "" if middle is None else f"{middle:+.1f}" + (f" ({min(gains):+.1f} to {max(gains):+.1f})"
                                                              if len(gains) > 1 else "")))
    header = ("change", "seeds", "evaluations", "rows", "steps", "network alone", "result", "400 simulations",
              "points more, same seed")
    return f"{table(header, rows)}\n\n{sources(runs)}"


def best_of_the_study(file: str) -> tuple[str, float, float, float]:
    """Processor and minutes of a study, and of its best trial with all seeds the medians: result, network alone."""
    study = Study.read(ROOT / "benchmarks" / "tune" / "studies" / file)
    undisturbed = _undisturbed()
    trials = [[_newest(undisturbed, study, study.words(combination), seed) for seed in study.seeds]
              for combination in study.combinations()]
    best = max((trial for runs in trials if len(trial := [run for run in runs if run]) == len(study.seeds)),
               key=lambda runs: statistics.median(run["value"] for run in runs))
    return (processor(best[0]), study.minutes, statistics.median(run["value"] for run in best),
            statistics.median(run["final"]["policy.optimal"] for run in best))


def _final(runs: list[Line], name: str) -> str:
    """Of a measurement at the end of these runs; nothing where one of them has none, as in older lines."""
    values = [run["final"][name] for run in runs if name in run.get("final", ())]
    return _spread(values) if len(values) == len(runs) else ""


def every_game() -> str:
    """Each game after its minutes of training, against its references: medians over the seeds."""
    newest = _newest_of_the_table()
    found, trained = _measured(newest)
    games = list(dict.fromkeys(game for game, *_ in found))
    rows = []
    for (game, minutes, reference, simulations), results in sorted(
            found.items(), key=lambda item: (games.index(item[0][0]), item[0][1])):
        learned = trained[game, minutes]
        processors = ", ".join(dict.fromkeys(map(processor, learned)))
        rows.append((game, f"{minutes:g}", processors, *(
            number(statistics.median(line["runs"][0][key] for line in learned)) for key in ("rows", "steps")),
                     reference, simulations, str(len(results)), _spread(results)))
    header = ("game", "minutes", "2 cores of", "rows", "steps", "measured by", "simulations", "seeds",
              "optimal moves, or score")
    return f"{table(header, rows)}\n\n{sources(newest.values())}"


def of_the_longest(game: str, *wanted: tuple[str, str]) -> tuple[str, float, *tuple[float, ...]]:
    """The most minutes of this game for which the table has all of (reference, simulations): processor and medians.

    A training whose matches are still to come is passed over.
    """
    found, trained = _measured(_newest_of_the_table())
    minutes = max(minutes for name, minutes in trained
                  if name == game and all((game, minutes, *one) in found for one in wanted))
    return (processor(trained[game, minutes][0]), minutes,
            *(statistics.median(found[game, minutes, *one]) for one in wanted))


def _newest_of_the_table() -> dict[str, Line]:
    """Name -> the newest line of that table; where it has none, of a study's run of the preset as it is."""
    recorded = {line["name"]: line for line in read_results(TABLE_FILE) if not line["name"].endswith(CURVE)}
    return {**_of_studies("connect_four"), **recorded}


def _of_studies(game: str) -> dict[str, Line]:
    """As lines of the table, the trainings and exact results of this game's preset that studies have made.

    For minutes and a seed without such a run: those of the same training with nothing solved at play.
    """
    solved = _made(digest_of(f"experiment={game}"), game, EXACTLY)
    unsolved = _made(digest_of(f"experiment={game}", *UNSOLVED), game, UNSOLVED_EXACTLY)
    known = {label.removesuffix(EXACTLY) for label in solved}
    return solved | {label: line for label, line in unsolved.items()
                     if label.removesuffix(UNSOLVED_EXACTLY) not in known}


def _made(settings: str, game: str, exactly: str) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for line in _undisturbed():
        final = line.get("final", {})
        if (line["settings"] != settings or line["minutes"] < LEAST_MINUTES
                or not ALSO_MEASURED.keys() <= final.keys()):
            continue
        label = f"{game} {line['minutes']:g} minutes seed {line['seed']}"
        measured = {name.removesuffix(".optimal"): {"optimal": final[name]} for name in ALSO_MEASURED}
        found |= {label: {**line, "runs": [line]}, label + exactly: {**line, "runs": [measured]}}
    return found


def _measured(
    newest: dict[str, Line]
) -> tuple[dict[tuple[str, float, str, str], list[float]], dict[tuple[str, float], list[Line]]]:
    """(game, minutes, reference, simulations) -> a result of each seed; (game, minutes) -> the trainings."""
    found: dict[tuple[str, float, str, str], list[float]] = defaultdict(list)
    trained: dict[tuple[str, float], list[Line]] = defaultdict(list)
    for name, line in newest.items():
        run = RUN.match(name)
        if run is None:
            raise LookupError(f"{TABLE_FILE}: {name!r} names no game, minutes and seed")
        key, rest, [result] = (run["game"], float(run["minutes"])), name[run.end():], line["runs"]
        if rest in (EXACTLY, UNSOLVED_EXACTLY):
            found[*key, "exact results", "network alone"].append(result["policy"]["optimal"])
            reference = "exact results" + (", nothing solved" if rest == UNSOLVED_EXACTLY else "")
            for simulations in ("64", "400"):
                if measured := result.get(f"search_{simulations}"):
                    found[*key, reference, simulations].append(measured["optimal"])
        elif match := MATCH.fullmatch(rest):
            found[*key, match["reference"], match["simulations"]].append(result["score"])
            if run["game"] in FIRST_WINS:
                first = Tally(**result["moving_first"])
                found[*key, f"{match['reference']}, moving first", match["simulations"]].append(first.score)
        else:
            trained[key].append(line)
    return found, trained


def elo_over_minutes() -> str:
    """How the Elo of each run of that table rose, by the newest version rated at each time; of seeds, the newest."""
    newest: dict[tuple[str, str], Line] = {}
    for line in read_results(TABLE_FILE):
        if line["name"].endswith(CURVE) and (run := RUN.match(line["name"])):
            newest[run["game"], run["minutes"]] = line
    rows = []
    for (game, minutes), line in newest.items():
        parts = [[point for point in line["points"] if point[0] <= part * float(minutes)][-1:]
                 for part in (0.25, 0.5, 1)]
        slope = line.get("slope")
        rows.append((game, minutes, str(len(line["points"])),
                     *(f"{point[0][1]:.0f} at {point[0][0]:.0f}" if point else "" for point in parts),
                     f"{slope[0]:+d} ± {2 * slope[1]}" if slope else "too few",
                     f"[picture](../images/{elo_picture(game, minutes)})"))
    header = ("game", "minutes", "versions rated", "Elo after a quarter, at minute", "after a half", "at the end",
              "Elo an hour, second half", "")
    return f"{table(header, rows)}\n\n{sources(newest.values())}" if rows else "Not measured yet."


def elo_picture(game: str, minutes: str) -> str:
    """The file of a run's picture, from docs/images."""
    return f"elo/{game}_{minutes}.png"


def score_share() -> str:
    """What playing for points, too, changes: the newest line of `benchmarks.strength.score_share`."""
    lines = read_results("score_share.jsonl")[-1:]
    rows = []
    for match in (match for line in lines for match in line["matches"]):
        own = "the same network" if "shipped" in match["opponent"] else "GNU Go 3.8 at level 1"
        rows.append((own, f"{match['share']:g}", str(match["games"]), share(match["score"]),
                     f"{match['elo']:+.0f} ({match['elo_low']:+.0f} to {match['elo_high']:+.0f})",
                     *("" if match[name] is None else f"{match[name]:.1f}" for name in ("won_by", "lost_by"))))
    header = ("against", "`score_share`", "games", "score", "Elo (95 %)", "points won by", "points lost by")
    return f"{table(header, rows)}\n\n{sources(lines)}" if lines else "Not measured yet."


def solved_at_play() -> str:
    """The same networks with endings solved at play, and without: medians over the networks."""
    newest = {(line["name"], line["solved_empties"]): line for line in read_results("solved_at_play.jsonl")}
    rows = [(name, str(empties), str(len(line["networks"])),
             *(_spread([network[player] for network in line["networks"]])
               for player in ("policy", "search_16", "search_64", "search_400")))
            for (name, empties), line in newest.items()]
    header = ("trained", "`search.solved_empties` at play", "seeds", "network alone", "16 simulations", "64", "400")
    return f"{table(header, rows)}\n\n{sources(newest.values())}" if rows else "Not measured yet."


def _spread(values: list[float]) -> str:
    low, middle, high = map(_exact_share, (min(values), statistics.median(values), max(values)))
    return middle if len(values) == 1 else f"{middle} ({low} – {high})"


def _exact_share(value: float) -> str:
    """No 100 % with a mistake."""
    return f"{100 * value:.2f} %" if 0.9995 <= value < 1 else share(value)


BLOCKS: tuple[Callable[[], str], ...] = (screenings, at_equal_time, played_labels, fits, every_game, elo_over_minutes,
                                         score_share, solved_at_play)
