"""Compares settings at equal time: a trial is a whole `shusaku train`, learner included, on all cores of the machine.

    python -m benchmarks.tune.study benchmarks/tune/studies/FILE.yaml [--dir runs/studies] [--trials N] [--record]
        [--begin-within MINUTES]

The file says what is compared:

    base: [experiment=connect_four]       # words of every trial
    minutes: 10                           # of training, for each run
    seeds: [1, 2, 3]                      # the median over their runs is what a trial is worth
    metric: search_64.optimal             # of the measurement at the end of a run; or `match`, a share of points
    match: [second.engine=mcts, games=200]  # words of that match, in which each run's network is the first player
    choices:                              # every combination is tried; a list of words has several settings at once
      value label: [[], [learner.root_value_share=0.5]]
    each:                                 # or, instead of choices: nothing of this, and each of these lists alone
      - [learner.optimizer=muon]
    screen:                               # or, instead: half of these in each run, see benchmarks.tune.screening
      - [learner.optimizer=muon]
    ranges:                               # or, with --trials, values that Optuna draws (TPE)
      learner.learning_rate: {low: 3.0e-4, high: 3.0e-3, log: true}

With a screening, a run's seed is its number, and a setting is worth the mean of the runs with it less the mean of those
without it.  With choices, all trials have had a seed before the next seed begins, so that the runs of a seed lie close
together in time; each is compared with the run of that seed that changes nothing.  With ranges, a trial that is behind
the median of the others after a seed is given up (Optuna's MedianPruner).

The same command goes on with a study that was killed: finished runs are kept, and a run goes on from its checkpoint.
With --record each finished run is at once a line of study_runs.jsonl among the results, and is not made again, also not
on another machine with the same processor; each line names its commit.  --begin-within ends a study in time.

A machine with other work (more than 0.2 cores) is refused; a run beside which such work began is marked, kept out of
the medians, and made again.  Of a run that was killed and went on, the work beside all of its parts counts.
"""

import argparse
import contextlib
import functools
import hashlib
import itertools
import json
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from benchmarks.lib import ROOT, machine, read_results, record
from benchmarks.tune.foreign_load import MOST, ForeignLoad
from benchmarks.tune.screening import FIRST_ROWS, effects, screening_runs, standard_error
from shusaku.common._core import Game, external_names
from shusaku.common.config.schema import Config, GameConfig, leaves
from shusaku.common.errors import UsageError
from shusaku.common.metrics import read_metrics
from shusaku.deploy.cli.overrides import compose

MATCH = "match"
FINAL = "final_strength"  # source of the metrics at the end of a run
LOOK_SECONDS = 3.0  # at the machine before a study
AGAIN = 3  # runs of a seed in one command until one is not disturbed
REMEMBER_SECONDS = 20.0  # between two notes of the load beside a run, for one that is killed
COUNTS = ("games", "rows", "steps", "evaluations")  # of a run, shown beside its time
KEYS = {"base", "minutes", "seeds", "metric", MATCH, "choices", "each", "screen", "ranges"}
OF_THE_RUN = ("experiment", "run.dir", "run.name", "run.seed", "run.minutes")  # settings that a study gives itself
RUNS_FILE = "study_runs.jsonl"


@dataclass(frozen=True)
class Study:
    """What a file asks for."""

    name: str
    base: list[str]
    minutes: float
    metric: str
    seeds: list[int] = field(default_factory=lambda: [1, 2, 3])
    match: list[str] = field(default_factory=list)
    choices: dict[str, list[list[str]]] = field(default_factory=dict)
    screen: list[list[str]] = field(default_factory=list)
    ranges: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Study":
        """UsageError with what is wrong in the file, settings that do not exist included."""
        if not path.is_file():
            raise UsageError(f"{path}: no such file; a study is a YAML file, such as those in benchmarks/tune/studies")
        tree = yaml.safe_load(path.read_text())
        if not isinstance(tree, dict) or not {"base", "minutes", "metric"} <= tree.keys() <= KEYS:
            raise UsageError(f"{path}: a study has base, minutes and metric, and of the others only "
                             f"{', '.join(sorted(KEYS - {'base', 'minutes', 'metric'}))}")
        if "each" in tree:
            each = tree.pop("each")
            if "choices" in tree or not _is_lists_of_words(each):
                raise UsageError(f"{path}: each is a list of lists of settings, such as [[learner.optimizer=muon]], "
                                 "and takes the place of choices")
            tree["choices"] = {"each": [[], *each]}
        study = cls(path.stem, **tree)
        study._check_shapes(path)
        if [bool(study.choices), bool(study.screen), bool(study.ranges)].count(True) != 1:
            raise UsageError(f"{path}: give either choices (or each), all of which are tried, or screen, half of which "
                             "is on in each run, or ranges that Optuna draws from")
        if study.screen:
            study._check_screen(path, "seeds" in tree)
        if (study.metric == MATCH) != bool(study.match):
            raise UsageError(f"{path}: metric: match needs match, the words that say against whom, and other metrics "
                             "take none")
        for words, _ in study.screening():
            digest_of(*study.base, *words)  # refuses settings that do not exist, and remembers the others
        for parameters in study.combinations() or (
                [{key: limits["low"] for key, limits in study.ranges.items()}] if study.ranges else []):
            digest_of(*study.base, *study.words(parameters))
        return study

    def _check_shapes(self, path: Path) -> None:
        if not _is_words(self.base) or not _is_number(self.minutes) or self.minutes <= 0:
            raise UsageError(f"{path}: base={self.base!r}, minutes={self.minutes!r}: base is a list of settings, such "
                             "as [experiment=connect_four], and minutes a number above 0")
        if not isinstance(self.choices, dict) or not all(map(_is_lists_of_words, self.choices.values())):
            raise UsageError(f"{path}: choices={self.choices!r}: each has a name and a list of lists of settings, such "
                             "as averages: [[], [learner.ema_decay=0.999]]")
        if not isinstance(self.seeds, list) or not self.seeds or not all(isinstance(seed, int) for seed in self.seeds):
            raise UsageError(f"{path}: seeds={self.seeds}: must be a list of whole numbers, such as [1, 2, 3]")
        if not isinstance(self.ranges, dict) or not all(
                isinstance(limits, dict) and {"low", "high"} <= limits.keys() <= {"low", "high", "log", "step"}
                for limits in self.ranges.values()):
            raise UsageError(f"{path}: ranges={self.ranges}: each has low and high, and may have log or step, such as "
                             "learner.learning_rate: {low: 3.0e-4, high: 3.0e-3, log: true}")
        for key, limits in self.ranges.items():
            if no_numbers := [name for name in limits if name != "log" and not _is_number(limits[name])]:
                raise UsageError(f"{path}: ranges: {key}: {no_numbers[0]}={limits[no_numbers[0]]!r} is no number; YAML "
                                 "reads 3.0e-4 as one, and not 3e-4")
        try:
            compose(["first.checkpoint=x", *self.match] if self.match else [])
        except UsageError as error:
            raise UsageError(f"{path}: match: {error}") from None

    def _check_screen(self, path: Path, has_seeds: bool) -> None:
        if not _is_lists_of_words(self.screen) or len(self.screen) >= max(FIRST_ROWS):
            raise UsageError(f"{path}: screen is a list of lists of settings, such as [[learner.optimizer=muon]], "
                             f"at most {max(FIRST_ROWS) - 1}")
        if has_seeds:
            raise UsageError(f"{path}: seeds: a screening takes another one for each run; leave them out")
        keys = [word.partition("=")[0] for words in self.screen for word in words]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise UsageError(f"{path}: screen: {', '.join(twice)} is set twice, and in some runs both are on")

    def screening(self) -> list[tuple[list[str], int]]:
        """Words and seed of each run of a screening; none without one."""
        runs = screening_runs(len(self.screen)) if self.screen else []
        return [([word for words, is_on in zip(self.screen, run, strict=True) if is_on for word in words], seed)
                for seed, run in enumerate(runs, 1)]

    def combinations(self) -> list[dict[str, Any]]:
        """Of the choices: name -> index; empty with ranges."""
        if not self.choices:
            return []
        indices = itertools.product(*(range(len(options)) for options in self.choices.values()))
        return [dict(zip(self.choices, combination, strict=True)) for combination in indices]

    def identity(self, words: list[str], seed: int) -> dict[str, Any]:
        """What tells a run from any other one, of this study and of others: what it trains with, however that is said.

        So a preset that has changed makes other runs, and runs of before are found by a base that says what it was.
        """
        against = {MATCH: self.match} if self.match else {}
        return {"base_settings": digest_of(*self.base), "settings": digest_of(*self.base, *words),
                "minutes": self.minutes, "metric": self.metric, **against, "seed": seed}

    def words(self, parameters: dict[str, Any]) -> list[str]:
        """Overrides of a trial."""
        chosen = [word for name, options in self.choices.items() for word in options[parameters[name]]]
        return chosen + [f"{key}={parameters[key]}" for key in self.ranges]

    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """For Optuna."""
        found: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(list(range(len(options))))
            for name, options in self.choices.items()}
        for key, limits in self.ranges.items():
            if "step" in limits or (isinstance(limits["low"], int) and isinstance(limits["high"], int)):
                found[key] = optuna.distributions.IntDistribution(**limits)
            else:
                found[key] = optuna.distributions.FloatDistribution(**limits)
        return found


@functools.cache
def digest_of(*words: str) -> str:
    """Of what these words ask for in a training.  Defaults are left out, so that a setting that is new changes none."""
    config, defaults = compose(list(words)), dict(leaves(Config()))
    config.game.params = {key: value for key, value in config.game.params.items() if not _is_default(config.game, key)}
    asked = {key: value for key, value in leaves(config) if defaults.get(key) != value and key not in OF_THE_RUN}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def _is_default(game: GameConfig, key: str) -> bool:
    """Whether these rules are the same without this parameter; what is left out may depend on the others."""
    if game.name in external_names():
        return False
    others = {name: value for name, value in game.params.items() if name != key}
    return bool(Game(game.name, others).params[key] == game.params[key])


def _named(words: list[str]) -> str:
    return " ".join(words) or "as they are"


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _is_lists_of_words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_words, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Ledger:
    """The finished runs of studies among the results of the repository, which outlive the machine."""

    def __init__(self, command: str, file: Path | str = RUNS_FILE) -> None:
        self._command, self._file = command, file

    def find(self, identity: dict[str, Any]) -> dict[str, Any] | None:
        """The newest run of this identity on such a processor."""
        for line in reversed(read_results(self._file)):
            if processor_of(line["machine"]) == processor_of(machine()) and identity.items() <= line.items():
                return line
        return None

    def add(self, run: dict[str, Any]) -> None:
        """A run that another ledger had keeps its command, machine, commit and date."""
        record(self._file, run.get("command", self._command), **{key: run[key] for key in run if key != "command"})


def processor_of(machine: str) -> str:
    """What `benchmarks.lib.machine` says without the clock rate, which changes from hour to hour."""
    return re.sub(r", [\d.]+ GHz", "", machine)


class Runs:
    """Makes the runs of a study, or finds those that were made before."""

    def __init__(self, study: Study, directory: Path, trainer: list[str], ledger: Ledger | None = None,
                 begin_within: float = float("inf")) -> None:
        """`trainer`: the words before those of a `shusaku` command; `begin_within`: seconds from now."""
        self._study, self._directory, self._trainer, self._ledger = study, directory, trainer, ledger
        self._last_begin = time.monotonic() + begin_within

    def result(self, words: list[str], seed: int) -> dict[str, Any]:
        """Of a run that nothing disturbed; SystemExit if there was none in `AGAIN` of them, or one failed."""
        identity = self._study.identity(words, seed)
        before = self._disturbed(identity)  # of commands before this one
        for attempt in range(before, before + AGAIN):
            folder = self._folder(identity, attempt)
            file = folder.with_suffix(".json")
            known = self._ledger.find(identity) if self._ledger else None
            if not file.exists():
                said = {"base": self._study.base, "words": words}
                made = known or {**said, **identity, **self._make(words, seed, folder)}
                file.parent.mkdir(parents=True, exist_ok=True)
                _write(file, made)
                shutil.rmtree(folder / "redis", ignore_errors=True)
            found: dict[str, Any] = json.loads(file.read_text())
            if found["foreign_cores"] <= MOST:
                if self._ledger and not known:
                    self._ledger.add(found)
                return found
            print(f"{_named(words)}, seed {seed}: {found['foreign_cores']:.2f} cores of other programs: not counted")
        sys.exit(f"{AGAIN} runs of {_named(words)}, seed {seed}, were disturbed; end the other work, and give the same "
                 "command again")

    def disturbed(self, words: list[str]) -> int:
        """How many runs with these words do not count."""
        seeds = range(1, len(self._study.screening()) + 1) if self._study.screen else self._study.seeds
        return sum(self._disturbed(self._study.identity(words, seed)) for seed in seeds)

    def _disturbed(self, identity: dict[str, Any]) -> int:
        """How many runs of this identity do not count: the first ones, for after one that counts none is made."""
        files = (self._folder(identity, attempt).with_suffix(".json") for attempt in itertools.count())
        made = itertools.takewhile(Path.exists, files)
        return sum(1 for _ in itertools.takewhile(
            lambda file: json.loads(file.read_text())["foreign_cores"] > MOST, made))

    def _folder(self, identity: dict[str, Any], attempt: int) -> Path:
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        return self._directory / f"{digest}-{attempt}"

    def _make(self, words: list[str], seed: int, folder: Path) -> dict[str, Any]:
        study = self._study
        if time.monotonic() > self._last_begin:
            sys.exit(f"--begin-within is over before {_named(words)}, seed {seed}; give the same command again for the "
                     "runs that are missing")
        command = ["train", *study.base, *words, f"run.seed={seed}", f"run.minutes={study.minutes:g}",
                   f"run.dir={folder}", "rater.enabled=false"]
        folder.parent.mkdir(parents=True, exist_ok=True)
        (seconds, foreign), summary = self._call(command, folder.with_suffix(".load"))
        result = {"foreign_cores": round(foreign, 3), "seconds": round(seconds, 1),
                  **{name: summary[name] for name in COUNTS if name in summary}, "evaluations": evaluations_of(folder)}
        final = final_of(folder)
        return {**result, "value": self._measure(folder, final), "final": final, "advice": self._advice(folder)}

    def _advice(self, folder: Path) -> list[str]:
        """What `shusaku diagnose` would change of this run, and why, while its games are there."""
        done = subprocess.run([*self._trainer, "diagnose", f"run.dir={folder}", "--json"], cwd=ROOT, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done.returncode:  # too young
            return []
        findings = json.loads(done.stdout.splitlines()[-1])["findings"]
        return [f"{finding['topic']}: {finding['setting']}, since {finding['measured']}"
                for finding in findings if finding["setting"]]

    def _measure(self, folder: Path, final: dict[str, float]) -> float:
        study = self._study
        if study.metric == MATCH:
            command = [MATCH, f"first.checkpoint={folder}", *study.match]
            return float(self._call(command)[1]["score"])
        if study.metric not in final:
            sys.exit(f"metric: {study.metric}: no run reports it at its end, only {', '.join(final) or 'nothing'}")
        return final[study.metric]

    def _call(self, words: list[str], loads: Path | None = None) -> tuple[tuple[float, float], dict[str, Any]]:
        """(seconds, cores of other programs in them), and the JSON of the command.

        `loads` remembers both for each time that this command was begun, for one that was killed and goes on.
        """
        print("shusaku", *words, flush=True)
        before = json.loads(loads.read_text()) if loads and loads.exists() else []
        said = self._directory / "stderr.log"
        said.parent.mkdir(parents=True, exist_ok=True)
        with said.open("ab") as errors:
            process = subprocess.Popen([*self._trainer, *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE,
                                       stderr=errors, text=True)
        load = ForeignLoad(process.pid)
        began = time.monotonic()
        output = _output_of(process, lambda: _write(loads, [*before, load.so_far()]) if loads else None)
        now = time.monotonic() - began
        parts = [*before, (now, now * load.finish())]
        if loads:
            _write(loads, parts)
        if process.returncode:
            sys.exit(f"shusaku {shlex.join(words)}: exit code {process.returncode}; {said} says why; mend it, and give "
                     "the same command again")
        summary: dict[str, Any] = json.loads(output.splitlines()[-1])
        seconds = sum(part for part, _ in parts)
        return (seconds, sum(foreign for _, foreign in parts) / seconds), summary


def _output_of(process: "subprocess.Popen[str]", remember: Callable[[], None]) -> str:
    """All that it prints, `remember` from time to time.  A signal to the study ends it, too; both go on together."""
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=REMEMBER_SECONDS)[0]
            remember()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _write(file: Path, value: Any) -> None:
    """As JSON, the whole or nothing."""
    file.with_suffix(".part").write_text(json.dumps(value))
    file.with_suffix(".part").rename(file)


def final_of(run: Path) -> dict[str, float]:
    """What the run has measured of itself at its end."""
    values: dict[str, Any] = {}
    for line in read_metrics(run / "metrics.jsonl", FINAL):
        values |= line.values
    return {name: float(value) for name, value in values.items() if value is not None}


def evaluations_of(run: Path) -> int:
    """About: the sum of the rates in its metrics."""
    total = before = 0.0
    for line in read_metrics(run / "metrics.jsonl", "self_play"):
        total += max(0.0, line.seconds - before) * (line.values.get("evaluations_per_s") or 0.0)
        before = max(before, line.seconds)
    return round(total)


def conduct(study: Study, directory: Path, trials: int, runs: Runs) -> list[dict[str, Any]]:
    """Makes what is missing of the study; a row for each trial, the best one first."""
    directory.mkdir(parents=True, exist_ok=True)
    if study.screen:
        return _screen(study, runs)
    rows = _try_all(study, runs) if study.choices else _search(study, directory, trials, runs)
    return sorted(rows, key=lambda row: -row["median"])


def _screen(study: Study, runs: Runs) -> list[dict[str, Any]]:
    """A row for each setting, the best one first: what it is worth (`more`), and the error of that."""
    values = [runs.result(words, seed)["value"] for words, seed in study.screening()]
    found = effects(screening_runs(len(study.screen)), values)
    rows = [{"words": words, "more": effect, "error": standard_error(found), "runs": len(values)}
            for words, effect in zip(study.screen, found, strict=True)]
    return sorted(rows, key=lambda row: -row["more"])


def _try_all(study: Study, runs: Runs) -> list[dict[str, Any]]:
    combinations = [study.words(combination) for combination in study.combinations()]
    results = [[runs.result(words, seed) for words in combinations] for seed in study.seeds]
    rows = [_row(words, list(of_trial), runs) for words, of_trial in zip(combinations, zip(*results, strict=True),
                                                                         strict=True)]
    base = next((row["values"] for row in rows if not row["words"]), None)
    for row in rows if base else ():
        row["more"] = statistics.median(own - other for own, other in zip(row["values"], base, strict=True))
    return rows


def _search(study: Study, directory: Path, trials: int, runs: Runs) -> list[dict[str, Any]]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(directory / "optuna.log")))
    # A file that asks for something else is another study; one that goes on draws other values than at its start.
    asked = json.dumps([study.identity([], 0), study.seeds, study.ranges], sort_keys=True)
    name = f"{study.name}-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"
    seen = optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True,
                               pruner=optuna.pruners.MedianPruner(n_warmup_steps=0))
    seen.sampler = optuna.samplers.TPESampler(seed=1 + len(seen.trials))
    for begun in seen.get_trials(states=[TrialState.RUNNING]):  # of a study that was killed
        _try(seen, optuna.trial.Trial(seen, begun._trial_id), study, runs)
    while sum(trial.state.is_finished() for trial in seen.trials) < trials:
        _try(seen, seen.ask(study.distributions()), study, runs)
    return [_row(words, [runs.result(words, seed) for seed in study.seeds[: len(trial.intermediate_values)]], runs,
                 is_pruned=trial.state is TrialState.PRUNED)
            for trial in seen.trials if trial.state.is_finished() and (words := study.words(trial.params))]


def _try(seen: optuna.Study, trial: optuna.trial.Trial, study: Study, runs: Runs) -> None:
    """The runs of a trial, one seed after the other, until it is behind."""
    values: list[float] = []
    for number, seed in enumerate(study.seeds):
        values.append(runs.result(study.words(trial.params), seed)["value"])
        if number not in seen.trials[trial.number].intermediate_values:
            trial.report(values[-1], number)
        if number + 1 < len(study.seeds) and trial.should_prune():
            seen.tell(trial.number, state=TrialState.PRUNED)
            return
    seen.tell(trial.number, statistics.median(values))


def _row(words: list[str], results: list[dict[str, Any]], runs: Runs, *, is_pruned: bool = False) -> dict[str, Any]:
    values = [result["value"] for result in results]
    return {
        "words": words, "pruned": is_pruned, "values": values, "median": statistics.median(values),
        "seeds": len(values),
        **{name: statistics.median([result[name] for result in results])
           for name in (*COUNTS, "seconds") if all(name in result for result in results)},
        "disturbed": runs.disturbed(words),
    }


def end_by_signal(number: int, frame: Any) -> None:
    """SystemExit, so that the training of the moment is ended, too."""
    sys.exit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--dir", type=Path, default=Path("runs/studies"))
    parser.add_argument("--trials", type=int, default=20, help="with ranges: how many in all")
    parser.add_argument("--begin-within", type=float, default=float("inf"), metavar="MINUTES",
                        help="no run begins later than that")
    parser.add_argument("--record", action="store_true",
                        help=f"append each run to {RUNS_FILE} of the results, and the whole to studies.jsonl")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end_by_signal)
    try:
        study = Study.read(options.study)
    except (UsageError, OSError, yaml.YAMLError) as error:
        sys.exit(str(error))
    load = ForeignLoad()
    time.sleep(LOOK_SECONDS)
    if (foreign := load.finish()) > MOST:
        sys.exit(f"other programs use {foreign:.2f} cores of this machine; end them, since trials compare equal times")
    command = shlex.join(["python", "-m", "benchmarks.tune.study", *sys.argv[1:]])
    directory = options.dir / study.name
    runs = Runs(study, directory, [sys.executable, "-m", "shusaku"], Ledger(command) if options.record else None,
                60 * options.begin_within)
    rows = conduct(study, directory, options.trials, runs)
    for row in rows if study.screen else ():
        print(f"{row['more']:+.4f} ± {row['error']:.4f}: {_named(row['words'])}; {row['runs']} runs")
    for row in () if study.screen else rows:
        spread = f"{min(row['values']):.4f} to {max(row['values']):.4f}"
        counts = ", ".join(f"{row[name]:,.0f} {name}" for name in COUNTS if name in row)
        more = f", {row['more']:+.4f} beside as they are" if row.get("more") else ""
        print(f"{row['median']:.4f} ({spread}, {row['seeds']} seeds{more}{', given up' if row['pruned'] else ''}): "
              f"{_named(row['words'])}; {counts}")
    if options.record:
        record("studies.jsonl", command, study=study.name, metric=study.metric, minutes=study.minutes, trials=rows)


if __name__ == "__main__":
    main()
