"""Everything a user can set: one dataclass a role, one documented line a field.

Hydra composes the same tree from `configs/`; `deploy.cli.overrides` turns it into these classes once, and each part
receives only its own.  `common.config.rules` says what is impossible or contradictory; docs/configuration.md is made
from this file.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

from shusaku.common.config.search import DEFAULTS, PuctConfig, SearchConfig, all_settings, replace_read

USUAL_GAMES = 64  # side by side in one actor
MOST_THREADS = 256  # of an engine


@dataclass
class GameConfig:
    """The game and its parameters."""

    name: str = "connect_four"  # one of `shusaku games`
    params: dict[str, Any] = field(default_factory=dict)  # game.<param>=...: what `shusaku games` lists for it


@dataclass
class RunConfig:
    """Where a run lives and how long it lasts."""

    dir: str = "runs/default"  # checkpoints, records, metrics; not given: runs/EXPERIMENT or runs/GAME; again: goes on
    name: str = ""  # names its keys in Redis, a-z 0-9 -; empty: the directory's name and a random part
    minutes: float = 20.0  # training time, summed over resumes, without set-up and final evaluation
    evaluations: int = 0  # `shusaku local` ends after about so many of self-play, over all resumes; 0: any number
    seed: int = 1  # from which games, sampling and initial weights follow
    grow: list[str] = field(default_factory=list)  # [20:64x5]: from 20 minutes on the network has 64 filters, 5 blocks
    http_port: int = 0  # port of /healthz and /metrics on 127.0.0.1; 0: a free one, which RUN_DIR/control.json names
    trackers: list[str] = field(default_factory=list)  # that metrics go to as well: mlflow, wandb (offline)
    resume: str = "auto"  # auto: go on where the directory stops; never: refuse a directory that holds a run
    checkpoint_seconds: float = 60.0  # between checkpoints; 0: only at the end
    keep_checkpoints: int = 3  # newest ones kept
    max_outage_minutes: float = 60.0  # the run ends after so many without a part that learning needs (Redis, …)
    keep_every_minutes: float = 60.0  # of the older ones the last of each so many minutes stays, to go back to; 0: none


@dataclass
class ActorsConfig:
    """The self-play actors."""

    count: int = 0  # self-play actors (threads in one process); auto (0): one a core, or what a cluster's learner takes
    cpus: float = 1.0  # CPUs that each claims on a cluster
    where: str = ""  # LABEL:VALUE of the nodes of Ray that play; empty: all, those without GPU and driver first
    games_per_actor: int = 64  # games side by side in one actor, and its network's batch; auto (0): measured at start
    snapshot_minutes: float = 5.0  # between saves of an actor's open games, on a cluster, for its successor; 0: never

    @property
    def games(self) -> int:
        """Games side by side, if the number was not measured."""
        return self.games_per_actor or USUAL_GAMES


class OnDevice:
    """Settings of a part that computes on a device."""

    device: str

    @property
    def chosen_device(self) -> str:
        """Either cpu or cuda: a GPU that is still to be chosen is none."""
        return "cuda" if self.device == "cuda" else "cpu"

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU was chosen."""
        return self.chosen_device == "cuda"


@dataclass
class InferenceConfig(OnDevice):
    """How positions are evaluated."""

    placement: str = "auto"  # actor: inside each actor; server: batched for all of them; auto: server on a GPU
    servers: int = 0  # inference servers, with placement server; auto (0): one, or one for each GPU that serves
    gpus_per_server: float = 0.0  # of Ray's; auto (0): one, or half of one if the learner takes the other half
    deadline_ms: float = 2.0  # a server waits no longer than this for more positions
    runtime: str = "auto"  # openvino | torch; auto: these or the core; uniform | pseudo_random | simulated_gpu: none
    simulated_gpu_batch_ms: float = 10.0  # a batch takes so long on the simulated GPU (runtime=simulated_gpu),
    simulated_gpu_row_us: float = 0.0  # and each of its rows, used or not, so much longer
    simulated_gpu_batches: int = 0  # after which it fails for good, to see what a run does then; 0: never
    precision: str = "auto"  # fp32 | bf16 | fp16 (GPU) | int8 (CPU, if its error is small); auto: the fastest, measured
    device: str = "auto"  # cpu | cuda; auto: GPUs of a run, as `shusaku plan` says
    encryption: str = "none"  # of requests that cross machines: none | tls (certificates are made for each start)
    listen: list[str] = field(default_factory=lambda: ["memory", "tcp"])  # ways to a server besides Ray calls
    gpu_program: str = "auto"  # on a GPU, for full batches: eager | compiled; auto: the faster one, measured once

    @property
    def is_quantised(self) -> bool:
        """Whether weights need scales for 8 bits, as far as the configuration says."""
        return self.precision == "int8" and not self.is_on_gpu and self.runtime in ("auto", "openvino")


@dataclass
class SelfPlayConfig:
    """How games are made, apart from the search."""

    random_plies: int = 0  # each game begins with 0 to so many uniformly random plies, which are not learned from
    policy_plies: float = 0.0  # then about so many (exponential) drawn from the network's policy, not learned from
    policy_temperature: float = 1.0  # of these draws (KataGo, cpp/program/playsettings.h: policyInitAreaTemperature)
    fork_share: float = 0.0  # of the games that branch off from the one before, by another move (KataGo 0.04)
    fork_plies: int = 20  # latest ply of that move, drawn evenly (KataGo: exponential, a mean of 0.025 a cell)
    komi_stdev: float = 0.0  # go: of each game's komi around game.komi (KataGo 1 on 19x19); game.planes=komi|liberties
    cheap_share: float = 0.0  # of the searches that are cheap and not learned from (KataGo 0.75; Wu 2019, section 3.1)
    cheap_simulations: int = 8  # of these, without Dirichlet noise (KataGo: a sixth of a full search)
    decided_value: float = 1.0  # root value that decides a game: beyond it searches shrink (KataGo 0.9); 1: none
    decided_plies: int = 3  # that must agree on it (KataGo, reduceVisitsThresholdLookback)
    decided_weight: float = 0.1  # of the rows of a game wholly decided (KataGo, reducedVisitsWeight)
    solved_empties: int = -1  # in self-play instead of search.solved_empties, which play has; -1: the same number
    solved_weight: float = 1.0  # of rows whose ending self-play solves: no search asks about their positions
    resign_errors: float = 0.0  # share of games not lost that resigning may give away (AlphaGo Zero 0.05); 0: never
    never_resign_share: float = 0.1  # of the games, which are played to the end to know that share (AlphaGo Zero)


@dataclass
class ValueConfig:
    """Games for a value network (Silver et al. 2016): two policies that never change play them, without a search."""

    enabled: bool = False  # true: such games take the place of self-play, and the network does not play
    supervised: str = ""  # policy of a game's first moves: RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | shipped | random
    reinforced: str = ""  # policy of the moves after the random one, to the end; the same choices
    last_switch: int = 80  # the random move is that of a ply drawn evenly from 1 to this one (AlphaGo 450, on 19x19)
    temperature: float = 1.0  # of the moves after the random one (AlphaGo 1); below 1: fewer blunders decide the game
    rows: str = "one"  # learned from: one (the position after the random move) | all (of a game: remembers games)


@dataclass
class ReinforceConfig:
    """A policy improved by policy gradient, in games against its own earlier versions (Silver et al. 2016, Methods)."""

    enabled: bool = False  # true: such games take the place of self-play, and each is learned from once
    start: str = ""  # policy that it begins with, also policy.from=: RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | random
    games: int = 128  # of an update, which is one gradient step (AlphaGo 128)
    pool_every: int = 50  # updates after which a version joins the pool of opponents (AlphaGo 500)
    max_lag: int = 4  # versions; a game that is older when its update comes is dropped and counted
    baseline: str = ""  # value network whose value is subtracted from the outcome; empty: 0 (AlphaGo's first pass)


@dataclass
class ReplayConfig:
    """What is remembered and how often it is learned from."""

    window: str = "power"  # power: grows with the rows seen (KataGo, python/shuffle.py); fixed: always `capacity`
    capacity: int = 500_000  # rows kept at most
    minimum: int = 10_000  # rows before the first step; with `power` also the smallest window
    window_exponent: float = 0.65  # of the power law
    window_factor: float = 0.4  # rows that the window grows by for each new row, at first
    window_scale: int = 0  # rows after which it grows slower, s of the power law; 0: `minimum` (KataGo: 250,000)
    keep: str = "planes"  # planes | moves: replayed when a row is sampled, for a window that memory would not hold
    samples_per_position: float = 2.0  # how often a position is learned from
    surprise_weight: float = 0.0  # share of a game's draws that goes by KL(policy || prior) (KataGo: 0.5); 0: none
    value_surprise_weight: float = 0.0  # and by later searches' values less the network's (KataGo: 0.1)
    url: str = ""  # redis://, rediss:// or unix:// of your server; empty: an own one in the run directory
    actor_url: str = ""  # as actors reach your server, where that differs: another user, another address
    url_file: str = ""  # a file of mode 600 that holds the URL; else SHUSAKU_REPLAY_URL of the environment is taken
    actor_url_file: str = ""  # the same for actor_url
    encryption: str = "none"  # of the own server, for other machines: none | tls (certificates are made for each start)
    megabytes: int = 4096  # games that the server keeps at most, whatever `capacity` says
    test_share: float = 0.0  # of the games that are never learned from: the loss on them is measured beside training's


@dataclass
class DatasetConfig:
    """Finished games that a learner without actors learns from: see docs/guides/imitation.md."""

    records: str = ""  # a directory of record logs, as `records import records.out=` writes it, or a pattern of several
    minutes: float = 2.0  # of training between two measurements on games that are not learned from
    positions: int = 10_000  # of such games that a measurement takes, and twice as many at the end


@dataclass
class RolloutConfig:
    """How `shusaku rollout` learns a rollout policy from the games of dataset.records."""

    passes: int = 6  # over the games
    rate: float = 0.2  # of AdaGrad in the first pass; it falls evenly over the passes
    least_seen: int = 10  # a feature gets a weight if so many moves to choose from had it


@dataclass
class NetworkConfig:
    """The tower with a policy and a value head (AlphaGo Zero, Methods; plain: AlphaGo, Methods)."""

    filters: int = 64  # channels of the tower
    blocks: int = 5  # residual blocks of two 3x3 convolutions; of a plain tower, its 3x3 layers after the first
    policy_filters: int = 2  # channels of the policy head before its last layer
    value_filters: int = 1  # channels of the value head before its linear layers
    value_hidden: int = 64  # width of the value head's hidden layer
    policy_head: str = "linear"  # linear | planes: each cell's features say the logits of its own A / (H W) actions
    squeeze: int = 0  # width of squeeze and excitation in each residual block, which sees the whole board; 0: none
    tower: str = "residual"  # residual | plain: 5x5 and then 3x3 layers, no norms, a policy bias for each action


@dataclass
class LearnerConfig(OnDevice):
    """How the network is trained.

    Of the targets, policy and value are what self-play asks for; one of them alone makes a network with that head
    alone, from games of others.  The others only teach the tower, in the learner: win_draw_loss, short_term (values of
    the next plies' searches), soft_policy, reply (the opponent's policy), moves_left; and if the game has them,
    ownership and score.
    """

    enabled: bool = True  # false: self-play only, the limiter is off too
    batch_size: int = 256  # rows of a gradient step, of all ranks together
    ranks: int = 1  # processes that learn together, each with its share of the games and rows; on several nodes, too
    start: str = ""  # what the network begins as: RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | shipped; empty: untrained
    steps: int = 0  # gradient steps that end a run, summed over resumes, if its minutes do not; 0: any number
    targets: list[str] = field(default_factory=lambda: ["policy", "value"])  # what is learned
    publish_heads: list[str] = field(default_factory=list)  # ownership, score: sent with the weights, for engines
    optimizer: str = "adamw"  # sgd | adam | adamw | muon (3x3 kernels of the blocks; the rest as adamw)
    learning_rate: float = 1e-3  # after the warm-up, at the head of the schedule
    momentum: float = 0.9  # of sgd and muon (0.95 is usual for muon)
    weight_decay: float = 1e-4  # c of c * |theta|^2; decoupled with adamw and muon
    value_weight: float = 1.0  # of the value's loss beside the policy's cross entropy
    value_loss: str = "squared"  # squared: (z - v)^2 | cross_entropy: of the expected score (1 + v) / 2
    root_value_share: float = 0.0  # r of the value's label (1 - r) z + r q, q what the search said (lc0: q_ratio)
    value_lambda: float = 0.0  # of that q: 0: of this position; up to 1: of the next plies and the end, too
    solved_empties: int = 0  # positions with at most so many empty cells are taught by their exact result; 0: none
    solved_policies: bool = True  # and of their policies only the actions that hold it
    cut_off_value: str = "rules"  # of a game at the ply limit: rules (draw; go: points) | search: what its last said
    win_draw_loss_weight: float = 1.0  # of which of the three outcomes it will be (lc0)
    short_term_weight: float = 0.6  # of each short-term value: what the searches of the next plies say (KataGo)
    soft_policy_weight: float = 8.0  # of the policy flattened to pi^(1/4) (KataGo)
    reply_weight: float = 0.15  # of the policy of the opponent's next search (KataGo)
    moves_left_weight: float = 1.0  # of how many plies are left (lc0)
    ownership_weight: float = 1.5  # of who owns which cell at the end (KataGo)
    score_weight: float = 0.0015  # of the points at the end (KataGo)
    blunder_gap: float = 0.0  # deblunder: z stops where a move loses more than this (lc0's rescorer: 0.1); 0: never
    blunder_width: float = 0.06  # of the transition around that gap (lc0: deblunder-q-blunder-width)
    warmup_steps: int = 100  # the learning rate rises linearly over them
    schedule: str = "constant"  # constant | cooldown | cosine (to 5 % at `schedule_steps`) | step (tenths)
    schedule_steps: int = 20_000  # of `cosine` and `step`; `cooldown` goes by `run.minutes` or `learner.steps`
    schedule_drops: list[int] = field(default_factory=list)  # steps of `step`'s drops to a tenth; none: at each third
    cooldown_share: float = 0.25  # of the run, its last part, in which `cooldown` falls from constant to 5 %
    max_grad_norm: float = 4.0  # gradients are clipped to it; 0: not
    ema_decay: float = 0.99  # of the published average, per step, after a warm-up
    publish_every: int = 100  # steps between publications
    precision: str = "auto"  # fp32 | bf16 (autocast); auto: bf16 where the processor or GPU computes in it
    device: str = "auto"  # cpu | cuda; auto: a GPU of the run, as `shusaku plan` says
    gpus: float = 0.0  # of Ray's; auto (0): one, or half of one if an inference server takes the other half
    gpu_program: str = "auto"  # on a GPU: eager | compiled steps; auto: the faster ones, measured once
    threads: int = 0  # of torch; auto (0): all cores in one process or of a node of its own, else cores - actors
    prefetch: int = 2  # mini-batches prepared ahead by a thread
    symmetries: bool = True  # a random symmetry of the game for every sampled row
    max_bad_steps: int = 5  # non-finite steps in a row before the last checkpoint is loaded again


@dataclass
class StrengthConfig:
    """How the strength is measured while training."""

    enabled: bool = True  # false: not at all while training
    simulations: int = 64  # of the search that is measured
    positions: int = 300  # of the committed set, the same ones every time
    minutes: float = 5.0  # between two measurements; in the first five minutes one a minute
    final: bool = True  # the full table and the picture at the end


_ANCHORS = ("random", "uct_10", "uct_100", "uct_400", "uct_1600")


@dataclass
class RaterConfig:
    """How versions are rated while training, at the lowest priority, by games; see docs/guides/ratings.md."""

    enabled: bool = True  # false: no version is rated while training
    games: int = 8  # of a version against each opponent, an even number
    simulations: int = 64  # of its searches in these games
    anchors: list[str] = field(default_factory=lambda: [*_ANCHORS])  # weakest first
    opening_plies: int = 4  # random legal ones that a pair of games begins with
    share: float = 0.02  # these games take at most so much of the processor time of all cores of the node
    fill: int = 0  # shusaku rate: games that versions in checkpoints play against neighbours and anchors; 0: none


@dataclass
class GateConfig:
    """What a version must show before self-play uses it (AlphaGo Zero, Methods, evaluator), with gating=win_rate."""

    every: int = 1000  # gradient steps between two candidates
    games: int = 400  # of a candidate against the best version, an even number
    score: float = 0.55  # share of the points, draws half, that a candidate must exceed
    simulations: int = 0  # of the searches in these games; 0: as many as search.simulations
    opening_plies: int = 4  # random legal ones that a pair of games begins with
    share: float = 0.2  # these games take at most so much of the actors' time


@dataclass
class ClusterConfig:
    """Ray, for `shusaku train`; the address to join is RAY_ADDRESS, without it Ray is started here."""

    dashboard: bool = True  # start Ray's dashboard and metrics with it, if Ray is started here
    quiet_ray: bool = False  # start fewer and quieter processes of Ray, by private names of Ray; if it is started here
    stuck_seconds: float = 300.0  # that one step or batch may take; more if the slowest one took over a tenth of that
    autoscaler_cpus: float = 0.0  # that Ray's autoscaler may bring in all; 0: as its own configuration says
    nice: int = 5  # actors run at this lower priority, so that learning on the same cores comes first


@dataclass
class BenchConfig:
    """How `shusaku bench` measures."""

    seconds: float = 10.0  # how long one measurement lasts


@dataclass
class PlayerConfig:
    """One of the two players of `shusaku match`: a checkpoint, an engine, or the networks of search=alphago."""

    checkpoint: str = ""  # RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | shipped (by us) | random (untrained)
    policy: str = ""  # alphago: the policy network, named in the same way; else the checkpoint, or the rollout policy
    value: str = ""  # alphago: the value network; else the checkpoint
    rollout: str = ""  # alphago: search.rollout of this player
    seconds: float = 0.0  # puct, alphago: processor time of a search, instead of search.simulations; 0: those
    engine: str = ""  # gtp | uci | usi: a program, see command; mcts: plain UCT with random rollouts; random
    command: str = ""  # of an engine over gtp, uci or usi: program and arguments
    options: dict[str, Any] = field(default_factory=dict)  # uci, usi: of the engine; gtp: {level: 1} sends `level 1`
    nodes: int = 0  # uci, usi: positions that the engine searches for a move
    depth: int = 0  # uci, usi: or plies that it searches deep
    movetime_ms: int = 0  # uci, usi: or the time that it takes; 100 where none of the three is given
    precision: str = ""  # of its network, as in inference.precision; empty: that one
    search: dict[str, Any] = field(default_factory=dict)  # as in section search; else as the run


@dataclass
class MatchConfig:
    """How `shusaku match` plays; every opening is played twice, with sides swapped."""

    opening_plies: int = 4  # random legal ones that a pair of games begins with
    move_seconds: float = 60.0  # longest time of an engine for a move
    start_seconds: float = 60.0  # and for each answer before its first game
    engines: int = 0  # processes of an engine, each with its own game; auto (0): four a core, one of them thinks
    file: str = ""  # of the games that ended: x.sgf, x.pgn, x.kif, x.kifu, x.csa; else one JSON object a line
    sprt: list[float] = field(default_factory=list)  # [elo0,elo1,alpha,beta]: the match ends when one is accepted


@dataclass
class RecordsConfig:
    """Games as files: `shusaku records`, and match.file."""

    file: str = ""  # of games: .sgf, .pgn, .kif (Shift-JIS), .kifu (UTF-8), .csa, .jsonl; check and import take x*.sgf
    source: str = ""  # export: files to take the games from instead of run.dir, to write them in another notation
    games: int = 0  # export: only the newest so many; 0: all
    comments: bool = False  # export: with values and policies of the searches
    moves: int = 5  # of a search in a comment: those with the largest shares; 0: the value alone
    weight: float = 1.0  # import: of each row beside those of self-play, which have 1
    skip_plies: int = 0  # import: so many moves of each game are not learned from, such as a random opening
    out: str = ""  # import: a new directory for a record log of the games, instead of the window of run.dir
    unknown: str = "reject"  # import, check: a game without a result: reject it | draw: take it as drawn


@dataclass
class EngineConfig:
    """How an engine of ours thinks: gtp, uci, usi, play, analyse and view."""

    threads: int = 0  # on one tree, each with a network of its own; 0: one a core
    leaves: int = 16  # positions that a thread evaluates together, at most; never more than 1/16 of the simulations
    megabytes: int = 4096  # of the tree; a search whose tree is larger ends
    simulations: int = 0  # of a move, unless a clock or a command says otherwise; 0: as the run was searched
    positions: int = 16  # that `analyse` searches at once, each on a tree of its own
    lag_ms: int = 50  # that a move takes besides its search, on its way to the arbiter's clock and back
    policy: str = ""  # search=alphago: the policy network, as `checkpoint` names one; else that one
    value: str = ""  # search=alphago: the value network; else the checkpoint
    resign_value: float = -0.95  # gtp, usi: an engine whose searches see less resigns; -1: never
    resign_moves: int = 3  # that have to see it in a row
    ponder: bool = False  # gtp: search while the opponent thinks (UCI and USI say so themselves)


@dataclass
class PlayConfig:
    """A game in the terminal."""

    side: str = "first"  # the player that is you: first | second | both | none, or a colour of the game
    temperature: float = 0.0  # the computer samples its moves from visits^(1 / temperature); 0: the best move


@dataclass
class ViewConfig:
    """The studio in the browser, `shusaku view`."""

    host: str = "127.0.0.1"  # where it listens; an address that others reach needs a token
    port: int = 8642  # 0: any free one
    token_file: str = ""  # a file of mode 600 with the token that pages need; else SHUSAKU_VIEW_TOKEN is taken


@dataclass
class Config:
    """The whole tree."""

    experiment: str = ""  # the preset it came from
    game: GameConfig = field(default_factory=GameConfig)
    run: RunConfig = field(default_factory=RunConfig)
    actors: ActorsConfig = field(default_factory=ActorsConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    search: SearchConfig = field(default_factory=PuctConfig)
    self_play: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    value: ValueConfig = field(default_factory=ValueConfig)
    reinforce: ReinforceConfig = field(default_factory=ReinforceConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    strength: StrengthConfig = field(default_factory=StrengthConfig)
    rater: RaterConfig = field(default_factory=RaterConfig)
    gating: str = "none"  # none | win_rate: self-play uses a version only after it has beaten the best one, see gate
    gate: GateConfig = field(default_factory=GateConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    bench: BenchConfig = field(default_factory=BenchConfig)
    match: MatchConfig = field(default_factory=MatchConfig)
    records: RecordsConfig = field(default_factory=RecordsConfig)
    first: PlayerConfig = field(default_factory=PlayerConfig)
    second: PlayerConfig = field(default_factory=PlayerConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    play: PlayConfig = field(default_factory=PlayConfig)
    view: ViewConfig = field(default_factory=ViewConfig)
    games: int = 400  # games of a match, an even number
    checkpoint: str = ""  # RUN_DIR | RUN_DIR/checkpoints/STEP | FILE | shipped (by us) | random (untrained)
    file: str = ""  # the file that export or rollout writes
    resume_from: int = -1  # step of a kept checkpoint that train and local go back to; -1: the newest


# Settings of the search that records of earlier versions do not know: their defaults are what those were played with.
ADDED_SETTINGS = (
    "rollout", "c_alphago", "rollout_share", "expand_after", "value_after", "prior_power", "virtual_loss",
    "resign_below", "fpu", "target_temperature", "symmetries", "score_share", "solved_empties",
)

ADDED_SELF_PLAY = ("solved_weight",)  # settings of self-play, likewise


def self_play_search(search: SearchConfig, play: SelfPlayConfig) -> SearchConfig:
    """The search that makes games: `search`, with the endings that are solved there."""
    return search if play.solved_empties < 0 else replace_read(search, solved_empties=play.solved_empties)


def config_hash(config: Config) -> str:
    """Names the settings that decide what a record means: game, search and self-play."""
    search = {name: value for name, value in all_settings(self_play_search(config.search, config.self_play)).items()
              if name not in ADDED_SETTINGS or value != DEFAULTS[name]}
    self_play = {name: value for name, value in vars(config.self_play).items() if name != "solved_empties"
                 and (name not in ADDED_SELF_PLAY or value != getattr(SelfPlayConfig(), name))}
    parts = [asdict(config.game), search, self_play]
    if config.value.enabled:
        parts.append(asdict(config.value))
    if config.reinforce.enabled:
        parts.append({"reinforce": True})
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of every setting."""
    for item in fields(node):
        value, key = getattr(node, item.name), f"{prefix}{item.name}"
        if is_dataclass(value):
            yield from leaves(value, f"{key}.")
        else:
            yield key, value
