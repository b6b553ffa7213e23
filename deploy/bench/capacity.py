"""From measured rates to a plan: how many actors, games an hour and megabytes, and what the limit will be."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured here, of one self-play actor with a core of its own and of the learner with its threads."""

    searches_per_s: float  # of an actor
    rows_per_s: float  # of an actor: searches that are learned from
    evaluations_per_s: float  # of an actor
    actor_mb: float  # resident memory
    rows_per_game: float  # that are learned from
    stored_bytes_per_row: float  # of a finished game in Redis
    learner_rows_per_s: float
    learner_threads: int
    learner_mb: float  # without the window
    window_bytes_per_row: float
    served_rows_per_s: float | None = None  # for which all inference servers evaluate; None: there are none


@dataclass(frozen=True, slots=True)
class Asked:
    """What the configuration wants."""

    actors: int
    cores: int
    samples_per_position: float
    capacity: int  # rows of the window
    minimum: int  # rows before the first step
    is_learning: bool
    learner_on_cpu: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What to expect of a run, once the network has seen its first rows; rates are a second's."""

    actors: int
    limit: str  # self-play | the network | the learner | the cores
    rows_per_s: float
    games_per_hour: float
    searches_per_s: float
    learned_rows_per_s: float
    busy_cores: float
    actors_that_fill_the_learner: int
    minutes_to_first_step: float
    hours_to_full_window: float
    actors_mb: float
    learner_mb: float
    redis_mb: float


def plan_of(rates: Rates, asked: Asked) -> Plan:
    """The steady state in which playing and learning wait for neither.

    With r rows a second of self-play, actors need r / a cores, a the rows of one core, and a learner on the same cores
    r s / l of its threads, s the samples a position and l the rows that one thread learns; so
    r = min(actors a, servers, l threads / s, cores / (1 / a + s / l)), where actors ask inference servers for at most
    so many.
    """
    per_core, threads = rates.rows_per_s, rates.learner_threads
    bounds = {"self-play": min(asked.actors, asked.cores) * per_core,
              "the network": rates.served_rows_per_s or math.inf}
    played = min(bounds.values())  # while no actor waits for the learner
    learner_cores = 0.0
    if asked.is_learning:
        bounds["the learner"] = rates.learner_rows_per_s / asked.samples_per_position
        if asked.learner_on_cpu:
            learner_cores = asked.samples_per_position * threads / rates.learner_rows_per_s  # for a row a second
            bounds["the cores"] = asked.cores / (1 / per_core + learner_cores)
    limit = min(bounds, key=lambda name: bounds[name])
    rows = bounds[limit]
    share = rows / per_core  # actors that would be busy all the time
    return Plan(
        actors=asked.actors, limit=limit, rows_per_s=rows, games_per_hour=3600 * rows / rates.rows_per_game,
        searches_per_s=share * rates.searches_per_s, busy_cores=share + rows * learner_cores,
        learned_rows_per_s=rows * asked.samples_per_position if asked.is_learning else 0.0,
        actors_that_fill_the_learner=-int(-bounds.get("the learner", rows) // per_core),
        minutes_to_first_step=asked.minimum / played / 60, hours_to_full_window=asked.capacity / rows / 3600,
        actors_mb=asked.actors * rates.actor_mb, redis_mb=asked.capacity * rates.stored_bytes_per_row / 1e6,
        learner_mb=rates.learner_mb + asked.capacity * rates.window_bytes_per_row / 1e6,
    )
