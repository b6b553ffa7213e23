"""Overrides become a Config, or one line that names the value and the way out."""

import zlib
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from shusaku.common._core import Game, game_names
from shusaku.common.config.rules import check_self_play
from shusaku.common.config.schema import USUAL_GAMES, Config
from shusaku.common.config.search import GumbelConfig, MctsConfig, PuctConfig, SearchConfig
from shusaku.common.errors import UsageError
from shusaku.common.masking import mask_override, mask_tree
from shusaku.deploy.cli import overrides, presets
from shusaku.deploy.cli.overrides import compose, compose_jobs
from shusaku.deploy.cli.presets import Presets
from shusaku.deploy.run.composed_config import ComposedConfig, replace_settings
from shusaku.deploy.run.game_parameters import game_defaults
from shusaku.learner.optimizers import learning_rate


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as error:
        compose(argv)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_nothing_asked_for_is_the_connect_four_preset() -> None:
    config = compose([])
    assert (config.experiment, config.game.name) == ("connect_four", "connect_four")
    assert config.run.dir == "runs/connect_four"


def test_a_game_alone_starts_from_the_plain_defaults() -> None:
    config = compose(["game=tic_tac_toe"])
    assert (config.game.name, config.experiment, config.run.dir) == ("tic_tac_toe", "", "runs/tic_tac_toe")
    plain = Config()
    for section in ("search", "network", "learner", "replay", "self_play", "strength"):
        assert getattr(config, section) == getattr(plain, section)


@pytest.mark.parametrize("argv", [["experiment=none"], ["game=connect_four"], ["game.name=connect_four"]])
def test_the_plain_defaults_are_the_dataclasses(argv: list[str]) -> None:
    config = compose(argv)
    config.run.dir = Config().run.dir
    assert vars_without_origin(config) == vars(Config())


def vars_without_origin(config: Config) -> dict[str, object]:
    origin = ("overrides", "asked", "search_settings", "unresolved")
    return {name: value for name, value in vars(config).items() if name not in origin}


@pytest.mark.parametrize("name", game_names())
def test_every_game_can_be_chosen(name: str) -> None:
    assert compose([f"game={name}"]).game.name == name


EXPERIMENTS = sorted(file.stem for file in (presets.CONFIGS / "experiment").glob("*.yaml"))


def fitting_choices(name: str, group: str) -> list[Path]:
    """Files of a group that set what the experiment sets, too; in another order for each experiment."""
    body = OmegaConf.load(presets.CONFIGS / "experiment" / f"{name}.yaml")
    files = sorted((presets.CONFIGS / group).glob("*.yaml"))
    begin = zlib.crc32(name.encode()) % len(files)
    return [file for file in [*files[begin:], *files[:begin]]  # no self-play searches by `alphago`
            if file.stem != "alphago" and set(body.get(group, {})) & set(OmegaConf.load(file))]


def check_choice(name: str, group: str, file: Path) -> None:
    """What the choice of a group says wins over the experiment."""
    body = OmegaConf.load(presets.CONFIGS / "experiment" / f"{name}.yaml")
    others = [f"{part}.enabled=false" for part in ("reinforce", "value") if part in body]  # no self-play
    chosen = compose([f"experiment={name}", f"{group}={file.stem}", "learner.enabled=false", *others])
    said = {str(key): getattr(getattr(chosen, group), str(key)) for key in OmegaConf.load(file)}
    expected = dict(OmegaConf.load(file))
    if expected.get("dirichlet_alpha") == 0:  # the game's, see tests/configs/test_presets.py
        assert said["dirichlet_alpha"] > 0
        expected["dirichlet_alpha"] = said["dirichlet_alpha"]
    assert said == expected, f"experiment={name} {group}={file.stem}"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_and_leaves_the_groups_their_say(name: str) -> None:
    policies = ["value.supervised=random", "value.reinforced=random"] if name.endswith("_value") else []
    assert compose([f"experiment={name}", *policies]).experiment == name
    for group in ("search", "network"):
        for file in fitting_choices(name, group)[:2]:
            check_choice(name, group, file)


@pytest.mark.long
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_leaves_every_choice_its_say(name: str) -> None:
    for group in ("search", "network"):
        for file in fitting_choices(name, group):
            check_choice(name, group, file)


@pytest.mark.parametrize(("name", "game", "records"), [
    ("alphago_9x9_imitation", ("go", {"size": 9}), "data/go_9x9"),
    ("alphago_19x19_imitation", ("go", {"size": 19, "planes": "alphago"}), "data/go_19x19"),
    ("chess_imitation", ("chess", {}), "data/chess"),
])
def test_the_presets_of_imitation_learn_a_policy_alone_from_finished_games(
    name: str, game: tuple[str, dict[str, int]], records: str
) -> None:
    config = compose([f"experiment={name}"])
    check_self_play(config)
    assert (config.game.name, config.game.params, config.dataset.records) == (*game, records)
    assert (config.learner.targets, config.search.policy) == (["policy"], "policy_only")
    assert config.learner.symmetries
    assert not config.strength.enabled
    assert not config.rater.enabled


def test_alphago_on_19x19_learns_by_the_rates_of_the_paper() -> None:
    """Silver et al. 2016, Methods, "Policy network: classification"."""
    config = compose(["experiment=alphago_19x19_imitation"])
    assert (config.network.tower, config.network.filters, config.network.blocks) == ("plain", 192, 11)
    learner = config.learner
    assert (learner.optimizer, learner.momentum, learner.batch_size, learner.learning_rate) == ("sgd", 0, 16, 0.003)
    assert (learner.schedule, learner.weight_decay) == ("constant", 0)
    assert (learner.warmup_steps, learner.max_grad_norm) == (0, 0)


@pytest.mark.parametrize(("name", "planes", "alpha"), [("chess", (119, 8, 8), 0.3), ("shogi", (362, 9, 9), 0.15)])
def test_the_presets_of_alphazero_hold_its_values(name: str, planes: tuple[int, ...], alpha: float) -> None:
    """Silver et al. 2018, Methods, and the constants of its pseudocode."""
    config = compose([f"experiment={name}"])
    assert Game(name, config.game.params).observation_shape == planes
    search, learner = config.search, config.learner
    assert (search.policy, search.simulations, search.dirichlet_alpha, search.dirichlet_fraction) == (
        "puct", 800, alpha, 0.25)
    assert (search.c_puct, search.c_puct_base, search.temperature_plies) == (1.25, 19652, 30)
    assert (config.network.filters, config.network.blocks) == (256, 19)
    assert (learner.batch_size, learner.optimizer, learner.momentum, learner.weight_decay) == (4096, "sgd", 0.9, 1e-4)
    rates = [learning_rate(step, learner) for step in (99_999, 100_000, 300_000, 500_000)]
    assert rates == pytest.approx([0.2, 0.02, 0.002, 0.0002])


def test_an_explicit_choice_wins_over_the_experiment() -> None:
    config = compose(["experiment=connect_four", "network=large", "search=gumbel", "game=connect_four"])
    assert (config.network.filters, config.network.blocks, config.game.name) == (256, 19, "connect_four")
    assert config.search == GumbelConfig(
        simulations=32, value_scale=0.5, rescale_values=False, proven_results=True, solved_empties=22)
    config = compose(["experiment=connect_four", "search=puct"])  # the experiment's own search is gumbel
    both_read = PuctConfig(simulations=32, proven_results=True, solved_empties=22)
    assert config.search == both_read
    assert compose(["experiment=connect_four", "search.policy=puct"]).search == both_read


@pytest.mark.parametrize(("argv", "value"), [
    (["run.minutes=5"], 5.0), (["+run.minutes=5"], 5.0), (["++run.minutes=5"], 5.0), (["run={minutes: 5}"], 5.0),
    (["run.minutes=5", "run.minutes=6"], 6.0),
])
def test_settings_in_every_notation(argv: list[str], value: float) -> None:
    assert compose(argv).run.minutes == value


@pytest.mark.parametrize(("override", "near"), [
    ("actors.cnt=3", "actors.count"), ("+actors.cnt=3", "actors.count"), ("++actors.cnt=3", "actors.count"),
    ("~actors.cnt", "actors.count"), ("minutes=3", "run.minutes"), ("run={minuts: 3}", "run.minutes"),
    ("serch=gumbel", "search"), ("experimnt=tic_tac_toe", "experiment"), ("hydra.run.dir=x", "run.dir"),
    ("search=gumbul", "gumbel"), ("game=tictactoe", "tic_tac_toe"),
])
def test_unknown_words_name_the_nearest(override: str, near: str) -> None:
    text = refusal(override)
    assert text.startswith(override)
    assert f"nearest: {near}" in text


@pytest.mark.parametrize(("override", "rule"), [
    ("~run.minutes", "leave run.minutes out"),
    ("search=", "there are alphago, alphago_zero, alphazero, gumbel, katago, mcts, policy_only, puct"),
    ("search=[puct]", "there are alphago, alphago_zero, alphazero"),
    ("experiment=draughts", "there are alphago_19x19_imitation, "),
    ("game.name=goo", "there are"),
    ("run.seed=many", "a whole number"),
    ("run.seed=1.5", "a whole number"),
    ("run.seed=null", "a whole number"),
    ("run.minutes=[1]", "a number"),
    ("learner.enabled=perhaps", "true or false"),
    ("run=3", "run.minutes"),
    ("run.seed=1,2", "--multirun"),
    ("run.minutes", "write key=value"),
    ("=3", "it has no key"),
    ("run.dir=[1", "wants quotes"),
    ("search@x=puct", "packages"),
    ("run.minutes=nan", "finite"),
    ("run.minutes=-1", "at least 0"),
    ("run.dir=", "must name a directory"),
    ("run.dir=${oc.env:SHUSAKU_NO_SUCH_VARIABLE}", "SHUSAKU_NO_SUCH_VARIABLE"),
    ("learner.batch_size=1000000000", "replay.capacity"),
])
def test_impossible_values_name_the_rule(override: str, rule: str) -> None:
    assert rule in refusal(override)


def test_auto_is_zero_where_zero_is_counted_or_measured() -> None:
    config = compose(["actors.games_per_actor=auto", "actors={count: auto}", "learner.threads=auto"])
    assert (config.actors.games_per_actor, config.actors.count, config.learner.threads) == (0, 0, 0)
    assert config.actors.games == USUAL_GAMES
    with pytest.raises(UsageError, match=r"games_per_actor=automatic: .* must be a whole number"):
        compose(["actors.games_per_actor=automatic"])
    with pytest.raises(UsageError, match=r"learner.batch_size=auto: .* must be a whole number"):
        compose(["learner.batch_size=auto"])


def test_a_changed_configuration_remembers_how_it_was_asked_for() -> None:
    config = compose(["search=puct", "run.seed=4"])
    other = replace_settings(config, checkpoint="random")
    assert isinstance(other, ComposedConfig)
    assert other.checkpoint == "random"
    assert config.checkpoint == ""
    assert (other.asked, other.overrides) == (config.asked, ["search=puct", "run.seed=4"])
    assert replace_settings(Config(), games=2).games == 2


def test_naming_a_player_does_not_let_self_play_off() -> None:
    config = compose(["search=puct", "search.leaves=4", "checkpoint=somewhere"])  # fine for evaluate
    with pytest.raises(UsageError, match=r"search.leaves=4: self-play selects one leaf"):
        check_self_play(config)


def test_contradictions_are_refused() -> None:
    assert "paths that wait would distort" in refusal("search=puct", "search.leaves=2")
    assert "paths that wait would distort" in refusal("search=puct", "search.leaves=2", "learner.enabled=false")
    assert "samples one symmetry for every leaf" in refusal("search.average_symmetries=true")
    assert "cannot be cut" in refusal("search=puct", "search.graph=true", "search.reuse=true")
    assert "own policy" in refusal("search=policy_only")
    assert "no ending of self-play is solved" in refusal("self_play.solved_weight=0.5")
    unproven = "search.solved_empties=8", "search.proven_results=false", "self_play.solved_weight=0.5"
    assert "no ending of self-play is solved" in refusal(*unproven)
    assert "at least 0 and at most 28" in refusal("search.solved_empties=29")
    assert "without self_play.solved_empties=N" in refusal("search.solved_empties=8", "self_play.solved_weight=0.5")
    assert "at least -1 and at most 28" in refusal("self_play.solved_empties=29")
    assert "at least 0 and at most 28" in refusal("learner.solved_empties=29")
    assert "search=policy_only solves no endings" in refusal(
        "search=policy_only", "learner.enabled=false", "self_play.solved_empties=8")
    for key in ("search", "self_play", "learner"):
        assert f"{key}.solved_empties=8: the board of go does not fill up" in refusal(
            "experiment=go_7x7", f"{key}.solved_empties=8")
        assert f"{key}.solved_empties=21: must be at least 0 and, in othello, at most 20" in refusal(
            "experiment=othello_6x6", f"{key}.solved_empties=21")
    assert "policy gradient learns from how its games ended" in refusal(
        "experiment=alphago_9x9_reinforce", "policy.from=random", "learner.solved_empties=9")
    assert "without a half-life" in refusal("search=puct", "search.root_policy_temperature_early=1.25")
    assert "rediss://" in refusal("replay.encryption=tls", "replay.url=redis://h:1/0")
    assert "must be one of none, tls" in refusal("inference.encryption=ssl")
    assert "must be made of mlflow, wandb, each once" in refusal("run.trackers=[mlflow,tensorboard]")
    assert "must be made of memory, tcp, each once; [] leaves Ray calls" in refusal("inference.listen=[tcp,udp]")
    assert "each once" in refusal("inference.listen=[tcp,tcp]")
    assert "game=connect_four already says" in refusal("game=connect_four", "game.name=tic_tac_toe")


@pytest.mark.parametrize(("choice", "setting", "readers"), [
    ("gumbel", "noise=true", "puct"), ("gumbel", "forced_playouts=2.0", "puct"), ("gumbel", "reuse=true", "puct"),
    ("gumbel", "temperature_final=0.15", "puct|mcts|policy_only"), ("gumbel", "move_choice=lcb", "puct|mcts"),
    ("gumbel", "leaves=2", "puct"), ("gumbel", "graph=true", "puct"), ("mcts", "prune_policy=true", "puct"),
    ("mcts", "cache=1000", "puct|gumbel|policy_only"), ("puct", "gumbel_scale=0.0", "gumbel"),
    ("puct", "c_uct=2.0", "mcts"), ("policy_only", "proven_results=true", "puct|gumbel|mcts"),
])
def test_a_setting_that_the_policy_does_not_read_is_refused(choice: str, setting: str, readers: str) -> None:
    text = refusal(f"search={choice}", f"search.{setting}", "learner.enabled=false")
    assert text == f"search.{setting}: {choice} does not read it; leave it out or use search={readers}"
    assert "does not read it" in refusal("learner.enabled=false", f"search.policy={choice}", f"search.{setting}")


def test_what_a_policy_lacks_can_be_switched_off() -> None:
    argv = ["search=gumbel", "search.noise=false", "search.reuse=false", "search.graph=false", "search.leaves=1"]
    assert compose(argv).search == GumbelConfig(
        simulations=32, value_scale=0.5, rescale_values=False, proven_results=True, solved_empties=22)
    without = compose(["experiment=connect_four", "search=policy_only", "learner.enabled=false"])
    assert without.self_play.solved_empties == 0


def test_a_preset_of_ones_own_is_held_to_its_policy(tmp_path: Path) -> None:
    preset = tmp_path / "experiment" / "mine.yaml"
    preset.parent.mkdir()
    own = Presets(tmp_path)
    head = "# @package _global_\ndefaults:\n  - override /game: hex\n  - override /search: gumbel\nexperiment: mine\n"
    preset.write_text(f"{head}search:\n  c_uct: 2.0\n")
    with pytest.raises(UsageError, match=r"^search.c_uct=2.0: gumbel does not read it"):
        compose(["experiment=mine"], own)
    assert compose(["experiment=mine", "search=mcts", "learner.enabled=false"], own).search == MctsConfig(c_uct=2.0)
    preset.write_text(f"{head}search:\n  simulatons: 2\n")
    with pytest.raises(UsageError, match=r"nearest: search.simulations"):
        compose(["experiment=mine"], own)
    preset.write_text(f"{head}search:\n  simulations: many\n")
    with pytest.raises(UsageError, match=r"many"):
        compose(["experiment=mine"], own)


@pytest.mark.parametrize(("name", "search"), [
    ("gumbel_at_1e2d214", GumbelConfig(simulations=32, value_scale=0.5, rescale_values=False)),
    ("katago_at_1e2d214", compose(["search=katago", "game=hex", "search.simulations=32", "search.reuse=true"]).search),
])
def test_the_configuration_of_an_old_run_is_read(tmp_path: Path, name: str, search: SearchConfig) -> None:
    text = (Path(__file__).parents[1] / "run" / f"{name}.yaml").read_text()
    assert "c_uct" in text
    path = tmp_path / "config.yaml"
    path.write_text(text.replace("service_ms", "simulated_gpu_batch_ms"))
    assert compose([f"config={path}"]).search == search
    assert compose([f"config={path}", "search=mcts", "learner.enabled=false"]).search.policy == "mcts"


def test_parameters_reach_the_game_with_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"size": 9, "komi": 7.5, "ko": True, "name": ""}
    monkeypatch.setattr(overrides, "game_defaults", lambda name, given=None: known)
    monkeypatch.setattr(overrides, "make_game", lambda name, params, what: None)  # whose parameters are others
    config = compose(["game=connect_four", "game.size=7", "+game.komi=6", "game.params.ko=false", "game.name=12"])
    assert config.game.params == {"size": 7, "komi": 6.0, "ko": False, "name": "12"}
    assert isinstance(config.game.params["komi"], float)
    assert "nearest: size" in refusal("game=connect_four", "game.siz=7")
    assert "a whole number" in refusal("game=connect_four", "game.size=7.5")
    assert "true or false" in refusal("game=connect_four", "game.ko=1")


def test_a_preset_says_the_size_and_the_command_line_another() -> None:
    assert compose(["experiment=othello_6x6"]).game.params == {"size": 6}
    assert compose(["experiment=othello_6x6", "game.size=8"]).game.params == {"size": 8}
    assert compose(["experiment=othello"]).game.params == {}


def test_values_that_the_game_refuses_are_named() -> None:
    assert refusal("game=hex", "game.size=14").startswith("game.size=14: size 14: hex is played on 2 x 2 to 13 x 13")
    assert "say size=8 or size=6" in refusal("experiment=othello_6x6", "game.size=7")


def test_a_game_without_parameters_says_so() -> None:
    assert game_defaults("tic_tac_toe") == {}
    assert "has no parameters" in refusal("game=tic_tac_toe", "game.size=7")
    assert "has no parameters" in refusal("game=tic_tac_toe", "+game.size=7")


def test_every_job_of_a_multirun_has_its_own_directory() -> None:
    jobs = [job.config for job in compose_jobs(["search=gumbel,puct", "run.seed=range(1,3)", "run.minutes=1"])]
    asked = [(job.search.policy, job.run.seed) for job in jobs]
    assert asked == [("gumbel", 1), ("gumbel", 2), ("puct", 1), ("puct", 2)]
    assert jobs[0].run.dir == "runs/connect_four/search=gumbel,run.seed=1"
    assert len({job.run.dir for job in jobs}) == 4
    assert jobs[3].overrides == ["search=puct", "run.seed=2", "run.minutes=1"]


def test_multirun_takes_globs_and_single_jobs() -> None:
    assert [job.config.network.filters for job in compose_jobs(["network=glob(*l*, exclude=[t*,a*])"])] == [256, 64]
    assert compose_jobs(["run.dir=runs/x"])[0].config.run.dir == "runs/x"
    assert [job.config.run.dir for job in compose_jobs(["run.dir=runs/x,runs/y"])] == ["runs/x", "runs/y"]


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUSAKU_TEST_DIR", "runs/secret")
    config = compose(["run.dir=${oc.env:SHUSAKU_TEST_DIR}"])
    assert config.run.dir == "runs/secret"
    assert config.unresolved["run"]["dir"] == "${oc.env:SHUSAKU_TEST_DIR}"
    assert mask_override("replay.url=redis://u:pw@host/0") == "replay.url=redis://u:***@host/0"
    assert mask_override("replay.password=pw") == "replay.password=***"
    section = {"api_key": "k", "token": "", "url": "redis://:pw@h", "list": ["unix://x"]}
    masked = {"api_key": "***", "token": "", "url": "redis://:***@h", "list": ["unix://x"]}
    assert mask_tree({"a": section, "pass": 1, "key": {"b": 1}}) == {"a": masked, "pass": "***", "key": {"b": 1}}


@pytest.mark.parametrize("name", ["123e456", "12e4", "2_000", "true", "1.5", "007"])
def test_a_name_that_looks_like_a_number_stays_a_name(name: str) -> None:
    assert compose([f"run.dir={name}"]).run.dir == name
    if name.isalnum():
        assert compose([f"run.name={name}"]).run.name == name


@pytest.mark.parametrize("value", ["5", "null", "[9]", "'size: 9'"])
def test_rules_that_are_no_map_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"game\.params=.*: must be a map, such as"):
        compose(["game=go", f"game.params={value}"])


def test_the_configuration_page_is_true() -> None:
    from shusaku.deploy.cli.config_reference import PAGE, page, settings

    written = (Path(__file__).resolve().parents[3] / PAGE).read_text(encoding="utf-8")
    assert written == page(), "run `make docs`"
    assert all(setting.text for setting in settings()), "every setting has a comment that says what it is"


# --- presets and configurations of one's own -------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_preset_of_ones_own(tmp_path: Path) -> None:
    write(tmp_path / "experiment" / "mine.yaml", "# @package _global_\ndefaults:\n  - override /game: go\n"
          "  - override /network: wide\nexperiment: mine\ngame:\n  params:\n    size: 7\n")
    write(tmp_path / "network" / "wide.yaml", "filters: 99\nblocks: 3\n")
    mine = presets.Presets.read(str(tmp_path))
    config = compose(["experiment=mine", "search.simulations=5"], mine)
    assert (config.game.name, config.game.params, config.network.filters) == ("go", {"size": 7}, 99)
    assert (config.experiment, config.run.dir, config.search.simulations) == ("mine", "runs/mine", 5)
    assert compose(["network=wide"], mine).network.blocks == 3
    with pytest.raises(UsageError, match=r"experiment=mne: no such experiment; nearest: mine"):
        compose(["experiment=mne"], mine)


def test_a_preset_with_a_mistake_is_one_line(tmp_path: Path) -> None:
    file = write(tmp_path / "experiment" / "mine.yaml", "# @package _global_\nrun:\n  minuts: 3\n")
    with pytest.raises(UsageError, match="minuts") as error:
        compose(["experiment=mine"], presets.Presets.read(str(tmp_path)))
    assert "\n" not in str(error.value)
    file.rename(file.with_name("chess.yaml"))
    with pytest.raises(UsageError, match=r"experiment/chess.yaml has the name of a preset"):
        presets.Presets.read(str(tmp_path))


def test_the_configuration_of_a_run_is_an_input(tmp_path: Path) -> None:
    """What a run directory holds gives the same settings again; where it was run is no part of them."""
    from shusaku.deploy.run.run_directory import RunDirectory

    first = compose(["experiment=othello_6x6", "search.simulations=7", "network=tiny", f"run.dir={tmp_path / 'x'}"])
    RunDirectory(first).close()
    file = f"config={tmp_path / 'x' / 'config.yaml'}"
    second = compose([file])
    assert second.run.dir == "runs/othello"
    for section in ("game", "search", "self_play", "network", "learner", "replay", "actors"):
        assert getattr(second, section) == getattr(first, section), section
    third = compose([file, "game.size=8", "search.simulations=9", "network=small", "run.dir=runs/y"])
    assert (third.game.params, third.search.simulations, third.network.filters, third.run.dir) == (
        {"size": 8}, 9, 64, "runs/y")
    assert compose([file, "game=othello"]).game == first.game
    for more, rule in (["experiment=chess"], "leave one out"), (["game=go"], "is a configuration of othello"):
        with pytest.raises(UsageError, match=rule):
            compose([file, *more])


@pytest.mark.parametrize(("text", "rule"), [
    ("search: {simulatins: 3}", "nearest: search.simulations"), ("search: {simulations: many}", "a whole number"),
    ("game: {name: go, params: {siz: 9}}", "nearest: size"), ("game: {name: goo}", "no such game"),
    ("replay: {url: 'redis://u:***@h'}", "add replay.url="), ("- 1", "is no configuration"), ("a: [", "cannot be read"),
    ("inference: {service_ms: 3}", "inference.simulated_gpu_batch_ms"),
])
def test_a_configuration_with_a_mistake_is_one_line(tmp_path: Path, text: str, rule: str) -> None:
    assert rule in refusal(f"config={write(tmp_path / 'config.yaml', text)}")


def test_a_file_that_is_missing_is_named() -> None:
    assert refusal("config=nowhere.yaml").startswith("nowhere.yaml: cannot be read")
    assert "must name a file" in refusal("config=")


def test_a_preset_of_another_game_is_refused() -> None:
    assert refusal("experiment=chess", "game=go").startswith("experiment=chess game=go: this preset plays chess")
    assert compose(["experiment=chess", "game=chess"]).game.name == "chess"
    assert compose(["experiment=none", "game=go"]).game.name == "go"


@pytest.mark.parametrize("name", ["runs/ü", "runs/棋", "runs/ä b", "'runs/ü,x'"])
def test_letters_of_every_language_name_a_directory(name: str) -> None:
    assert compose([f"run.dir={name}"]).run.dir == name.strip("'")


def test_letters_of_every_language_in_several_runs() -> None:
    assert [job.config.run.dir for job in compose_jobs(["run.dir=runs/ü,runs/ö"])] == ["runs/ü", "runs/ö"]
