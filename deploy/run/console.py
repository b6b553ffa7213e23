"""What a user watches while a run goes on: one refreshing block, or a plain line every ten seconds elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Any, Self, cast

from rich.console import Console as Terminal
from rich.console import ConsoleOptions, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shusaku.common.masking import mask_text
from shusaku.common.resignation import NEVER_RESIGN
from shusaku.deploy.run.foreground_link import LINK

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "   "  # between figures


@dataclass
class Waiting:
    """What the run waits for: `done` of `total`, growing at a rate."""

    what: str  # "rows before the first step"
    done: float
    total: float
    per_second: float = 0.0

    def __str__(self) -> str:
        text = f"{self.done:,.0f} of {self.total:,.0f} {self.what}"
        if self.per_second > 0 and self.done < self.total:
            text += f", about {clock((self.total - self.done) / self.per_second)} to go"
        return text


@dataclass
class Status:
    """Everything the block shows at one moment; rates are already smoothed."""

    title: str  # game or experiment
    run_dir: str
    seconds: float = 0.0  # training time so far, summed over resumes
    minutes: float = 0.0  # training time asked for
    activity: str = ""  # "playing", "learning", "measuring the strength", ...
    waiting: Waiting | None = None
    games: int = 0
    games_per_hour: float = 0.0
    rows_per_second: float = 0.0
    resign_value: float = NEVER_RESIGN  # a player to move who sees less resigns
    resigned_share: float = 0.0  # of the games of the last hour
    wrongly_resigned_share: float = 0.0  # of those that were played on: a player who did not lose would have resigned
    played_on: int = 0  # games in which no player may resign, so that the share above is known
    searches_per_second: float = 0.0
    evaluations_per_second: float = 0.0
    cache_hit_rate: float = 0.0  # share of leaves that the cache answered
    step: int = 0
    version: int = 0
    steps_per_second: float = 0.0
    learning_rate: float = 0.0
    losses: dict[str, float] = field(default_factory=dict)  # in the order to show
    unseen: dict[str, float] = field(default_factory=dict)  # of games that are not learned from
    reinforce: dict[str, float] = field(default_factory=dict)  # of policy gradient, see docs/guides/reinforce.md
    window_rows: int = 0  # rows that can be sampled
    window_size: int = 0  # rows that the window would hold now
    rows_seen: int = 0
    samples_per_position: float = 0.0
    sample_age_steps: float = 0.0  # since the weights that played a sampled row: mean since the last publication
    sample_age_steps_max: float = 0.0
    sample_age_versions: float = 0.0
    sample_age_versions_max: float = 0.0
    strength: list[tuple[float, float]] = field(default_factory=list)  # training seconds, share of optimal moves
    strength_label: str = "optimal moves"  # what the share is of
    elo: float = 0.0  # of the newest version that was rated, with its 95 % interval; random mover = 0
    elo_low: float = 0.0
    elo_high: float = 0.0
    rated_version: int = 0  # 0: none was rated yet
    elo_curve: list[tuple[float, float]] = field(default_factory=list)  # training seconds, Elo of each rated version
    skipped_steps: int = 0  # not finite
    refused_publications: int = 0  # networks that were not finite
    rollbacks: int = 0  # to the last checkpoint
    quarantined: int = 0  # records that failed validation
    lost_games: int = 0  # played, but not in the replay any more
    send_failures: int = 0  # calls of actors to the replay server without an answer
    restored_games: int = 0  # open games that actors went on with, of their predecessors
    dropped_games: int = 0  # open games that they could not go on with
    skipped_rows: int = 0  # rows that left the replay server before the learner read them
    unreachable_seconds: float = 0.0  # since the replay server answered the learner last; 0: it answers
    outage_seconds: float = 0.0  # in which the training clock stood still, because a part of the run was missing
    workers: list[tuple[str, str]] = field(default_factory=list)  # metrics of a cluster with their units
    time_shares: dict[str, float] = field(default_factory=dict)  # of self-play's time, by common.stage_timer.STAGES
    runtimes: list[str] = field(default_factory=list)  # what evaluates, and why it was taken
    learner_runtime: str = ""  # what computes the gradients, and why it was taken
    paused_share: float = 0.0  # of the actors' time, in which they wait for the learner
    waiting_share: float = 0.0  # of the learner's time, in which it waits for rows
    limit: str = ""  # which part limits the run
    disk: str = ""  # what the run takes of the disk at most, and what is free
    troubles: list[str] = field(default_factory=list)  # anything else that is wrong now

    @property
    def seconds_left(self) -> float:
        """Seconds of `minutes` that are left, at least 0."""
        return max(0.0, self.minutes * 60 - self.seconds)


class _Stdout:
    """`sys.stdout` of the moment without its errors: a run does not end because its output cannot be written.

    The disk behind a file may be full, the reader of a pipe may end (`| head`), a terminal may be closed.
    """

    def write(self, text: str) -> int:
        """Writes the text, or drops it."""
        with contextlib.suppress(OSError):
            sys.stdout.write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes what was written, if that is possible."""
        with contextlib.suppress(OSError):
            sys.stdout.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


class Console:
    """Shows a Status whenever it is given one, at most as often as is useful.

    A terminal gets one block that is redrawn in place; anything else gets a line every `plain_seconds`.
    """

    def __init__(
        self, terminal: Terminal | None = None, plain_seconds: float = 10.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._terminal = terminal or Terminal(file=cast(IO[str], _Stdout()), highlight=False)
        self._live: Live | None = None
        if self._terminal.is_terminal and not self._terminal.is_dumb_terminal:
            self._live = Live(console=self._terminal, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._pause = 0.25 if self._live is not None else plain_seconds
        self._now = now
        self._shown = float("-inf")
        self._pending: Status | None = None

    def show(self, status: Status) -> None:
        """Shows the status unless the last one is too fresh; the newest one is shown at the end in any case."""
        self._pending = status
        if self._now() - self._shown >= self._pause:
            self._draw()

    def log(self, line: str) -> None:
        """Prints a line that stays, above the block."""
        self._terminal.print(Text(mask_text(line)), soft_wrap=self._live is None)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
            LINK.print_with(self.log)
        return self

    def __exit__(self, *exception: object) -> None:
        self._draw()
        if self._live is not None:
            LINK.print_with(None)
            self._live.stop()

    def _draw(self) -> None:
        if self._pending is None:
            return
        if self._live is not None:
            self._live.update(block(self._pending), refresh=True)
        else:
            self._terminal.print(Text(plain_line(self._pending)), soft_wrap=True)
        self._pending = None
        self._shown = self._now()


def block(status: Status) -> Panel:
    """The refreshing block; figures wrap whole, so it is made for 80 columns and more."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold cyan", no_wrap=True)
    rows.add_column(overflow="fold")
    rows.add_row("time", _time_row(status))
    rows.add_row("now", _now_text(status))
    rows.add_row("self-play", _Figures([*_self_play_rates(status), (f"{status.games:,}", "games")]))
    if status.resign_value > NEVER_RESIGN:
        rows.add_row("resignation", _Figures(_resignation(status)))
    if status.time_shares:
        rows.add_row("its time", _Figures([(f"{share:.0%}", part) for part, share in status.time_shares.items()]))
    rows.add_row("learner", _Figures([
        (f"{status.steps_per_second:,.1f}", "steps/s"), (f"{status.step:,}", "steps"),
        *((f"{value:.3f}", f"{name} loss") for name, value in status.losses.items()),
        (f"{status.learning_rate:.2g}", "learning rate"), (f"{status.version:,}", "published"),
    ]))
    if status.unseen:
        rows.add_row("unseen games", _Figures(_unseen(status)))
    if status.reinforce:
        rows.add_row("policy", _Figures(_reinforce(status)))
    rows.add_row("replay", _Figures([
        (f"{status.window_rows:,} of {status.window_size:,}", "rows in the window"),
        (f"{status.samples_per_position:.2f}", "samples per position"), (f"{status.rows_seen:,}", "rows seen"),
        (f"{status.sample_age_steps:,.0f}, at most {status.sample_age_steps_max:,.0f}", "steps old when sampled"),
    ]))
    if status.runtimes:
        rows.add_row("network", Text("; ".join(status.runtimes)))
    if status.learner_runtime:
        rows.add_row("gradients", Text(status.learner_runtime))
    if status.workers:
        rows.add_row("workers", _Figures(status.workers))
    if status.limit:
        rows.add_row("limit", Text(status.limit))
    if status.disk:
        rows.add_row("disk", Text(status.disk))
    rows.add_row("strength", _strength_text(status))
    if status.rated_version:
        rows.add_row("Elo", _elo_text(status))
    troubles = _troubles(status)
    if troubles:
        rows.add_row(Text("trouble", style="bold red"), Text(", ".join(troubles)))
    return Panel(rows, title=Text(f" {status.title} ", style="bold"), title_align="left", border_style="cyan",
                 subtitle=Text(f" {status.run_dir} ", style="dim"), subtitle_align="left")


def plain_line(status: Status) -> str:
    """The same in one line, for logs."""
    parts = [
        f"{clock(status.seconds)} of {clock(status.minutes * 60)}",
        *(f"{value} {unit}" for value, unit in _self_play_rates(status)),
        f"step {status.step:,}", f"{status.steps_per_second:,.1f} steps/s",
        *(f"{name} loss {value:.3f}" for name, value in status.losses.items()),
        f"window {status.window_rows:,}/{status.window_size:,}",
        f"{status.samples_per_position:.2f} samples per position",
        f"samples {status.sample_age_steps:,.0f} steps old",
    ]
    parts += [f"unseen {unit} {value}" for value, unit in _unseen(status)]
    parts += [f"{value} {unit}" for value, unit in _reinforce(status)]
    if status.resign_value > NEVER_RESIGN:
        parts += [f"{value} {unit}" for value, unit in _resignation(status)]
    if status.strength:
        parts.append(f"{status.strength[-1][1]:.3f} {status.strength_label}")
    if status.rated_version:
        parts.append(f"Elo {status.elo:.0f} ({status.elo_low:.0f} to {status.elo_high:.0f})")
    parts += [f"{value} {unit}" for value, unit in status.workers]
    if status.limit:
        parts.append(status.limit)
    parts += _troubles(status)
    if status.activity:
        parts.append(status.activity)
    if status.waiting is not None:
        parts.append(f"waiting: {status.waiting}")
    parts.append(f"{clock(status.seconds_left)} left")
    return " | ".join(parts)


def clock(seconds: float) -> str:
    """`75` -> `1:15`, `3675` -> `1:01:15`."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def sparkline(values: Iterable[float], width: int = 24) -> str:
    """The last `width` values as a row of bars, from the smallest to the largest of them."""
    shown = list(values)[-width:]
    low = min(shown, default=0.0)
    span = (max(shown, default=0.0) - low) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int((value - low) / span * len(_BARS)))] for value in shown)


def _self_play_rates(status: Status) -> list[tuple[str, str]]:
    """Values with their units."""
    return [
        (f"{status.games_per_hour:,.0f}", "games/h"), (f"{status.rows_per_second:,.0f}", "rows/s"),
        (f"{status.searches_per_second:,.0f}", "searches/s"),
        (f"{status.evaluations_per_second:,.0f}", "evaluations/s"), (f"{status.cache_hit_rate:.0%}", "cache hits"),
    ]


def _unseen(status: Status) -> list[tuple[str, str]]:
    """Values with their units; none before the first measurement, and of the heads that the network has."""
    shown = {"top_1": ("top-1", ".1%"), "top_5": ("top-5", ".1%"), "policy_loss": ("-log p", ".3f"),
             "value_loss": ("(z - v)^2", ".3f")}
    return [(format(status.unseen[name], form), unit) for name, (unit, form) in shown.items() if name in status.unseen]


def _reinforce(status: Status) -> list[tuple[str, str]]:
    """Values with their units; none before the first update, and in other runs."""
    shown = {"score": ("of the points against the pool", ".1%"), "pool": ("in the pool", ".0f"),
             "entropy": ("nats of entropy", ".2f"), "kl_start": ("nats from the start", ".3f"),
             "too_old": ("games too old", ",.0f")}
    values = status.reinforce
    return [(format(values[name], form), unit) for name, (unit, form) in shown.items() if name in values]


def _resignation(status: Status) -> list[tuple[str, str]]:
    """Values with their units."""
    return [
        (f"{status.resign_value:.2f}", "resigned below"), (f"{status.resigned_share:.0%}", "of the games resigned"),
        (f"{status.wrongly_resigned_share:.1%}", f"wrongly, by {status.played_on:,} played on"),
    ]


def _time_row(status: Status) -> Table:
    total = max(status.minutes * 60, 1e-9)
    row = Table.grid(padding=(0, 2))
    row.add_column(no_wrap=True)
    row.add_column(width=24)
    row.add_column(no_wrap=True)
    done = Text.assemble((clock(status.seconds), "bold"), f" of {clock(status.minutes * 60)}")
    bar = ProgressBar(total=total, completed=min(status.seconds, total))
    row.add_row(done, bar, f"{clock(status.seconds_left)} left")
    return row


def _now_text(status: Status) -> Text:
    text = Text(status.activity or "starting")
    if status.waiting is not None:
        text.append(" — waiting: ", style="dim")
        text.append(str(status.waiting), style="yellow")
    return text


def _strength_text(status: Status) -> Text:
    if not status.strength:
        return Text("not measured yet", style="dim")
    seconds, share = status.strength[-1]
    text = Text.assemble((f"{share:.3f}", "bold green"), f" {status.strength_label}, at {clock(seconds)}")
    if len(status.strength) > 1:
        text.append(f"  {sparkline(value for _, value in status.strength)}", style="green")
    return text


def _elo_text(status: Status) -> Text:
    text = Text.assemble((f"{status.elo:.0f}", "bold green"), f" ({status.elo_low:.0f} to {status.elo_high:.0f})",
                         f", version {status.rated_version}; random mover = 0")
    if len(status.elo_curve) > 1:
        text.append(f"  {sparkline(value for _, value in status.elo_curve)}", style="green")
    return text


def _troubles(status: Status) -> list[str]:
    counts = [
        (status.skipped_steps, "steps skipped (not finite)"),
        (status.refused_publications, "publications refused (not finite)"),
        (status.rollbacks, "rollbacks to the last checkpoint"),
        (status.quarantined, "records in quarantine"),
        (status.lost_games, "games lost from the replay"),
        (status.send_failures, "calls to the replay server without an answer"),
        (status.skipped_rows, "rows deleted before they were read"),
        (status.dropped_games, "open games dropped"),
    ]
    return [f"{count:,} {what}" for count, what in counts if count] + status.troubles


class _Figures:
    """Figures side by side, packed into lines of the width at hand without parting a figure from its unit."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._cells = [Text.assemble((value, "bold"), f" {unit}") for value, unit in pairs]

    def __rich_console__(self, terminal: Terminal, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for cell in self._cells:
            if line and len(line) + len(_GAP) + len(cell) > options.max_width:
                yield line
                line = Text()
            line = Text.assemble(line, _GAP, cell) if line else cell
        yield line

    def __rich_measure__(self, terminal: Terminal, options: ConsoleOptions) -> Measurement:
        widths = [len(cell) for cell in self._cells]
        return Measurement(max(widths, default=0), min(options.max_width, sum(widths) + len(_GAP) * len(widths)))
