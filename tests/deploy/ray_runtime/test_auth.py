"""Where Ray's token comes from, and who may read it."""

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ray_variables import RAY_VARIABLES

from shusaku.common.errors import UsageError
from shusaku.deploy.ray_runtime import auth as ray_auth
from shusaku.deploy.ray_runtime.auth import login_for_joining, login_for_new_cluster

ROOT = Path(__file__).resolve().parents[3]


def test_a_new_cluster_gets_a_token_that_only_the_user_can_read(clean: Path) -> None:
    login = login_for_new_cluster()
    assert login.variables == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(clean)}
    assert stat.S_IMODE(clean.stat().st_mode) == 0o600
    assert stat.S_IMODE(clean.parent.stat().st_mode) == 0o700
    assert len(login.token()) == 64
    assert login_for_new_cluster().token() == login.token()
    assert sorted(path.name for path in clean.parent.iterdir()) == ["auth_token"]


def test_processes_that_make_the_token_at_once_agree_on_one(clean: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = [pool.submit(subprocess.run, [sys.executable, "-c", "from shusaku.deploy.ray_runtime.auth "
                                             "import login_for_new_cluster\n"
                                             "print(login_for_new_cluster().token())"],
                            cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(8)]
        tokens = {each.result().stdout for each in made}
    assert tokens == {clean.read_text() + "\n"}


def test_a_token_that_others_could_read_is_taken_from_them_and_kept(clean: Path) -> None:
    clean.parent.mkdir()
    clean.write_text("abc\n")
    clean.chmod(0o644)  # as Ray writes it
    login = login_for_new_cluster()
    assert "readable by others" in login.note
    assert login.token() == "abc"
    assert stat.S_IMODE(clean.stat().st_mode) == 0o600
    assert login_for_new_cluster().note == ""


def test_an_empty_token_file_is_filled(clean: Path) -> None:
    clean.parent.mkdir()
    clean.touch()
    assert len(login_for_new_cluster().token()) == 64


@pytest.mark.parametrize(("variables", "expected"), [
    ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "disabled"}),
    ({"RAY_AUTH_TOKEN": "t"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t"}),
])
def test_the_variables_of_the_user_win(clean: Path, variables: dict[str, str], expected: dict[str, str]) -> None:
    for login in (login_for_new_cluster(variables), login_for_joining(variables)):
        assert login.variables == expected
    assert not clean.exists()


def test_without_any_token_a_cluster_is_joined_explicitly_without_and_says_so(clean: Path) -> None:
    login = login_for_joining()
    assert login.variables == {"RAY_AUTH_MODE": "disabled"}
    assert str(clean) in login.note
    login_for_new_cluster()
    assert login_for_joining().token_file == str(clean)


@pytest.mark.parametrize("variables", [
    {"RAY_AUTH_MODE": "nonsense"}, {"RAY_AUTH_TOKEN_PATH": "/nonexistent/file"}, {"RAY_AUTH_MODE": "token"},
])
def test_a_login_that_cannot_work_is_one_line(clean: Path, variables: dict[str, str]) -> None:
    with pytest.raises(UsageError) as error:
        login_for_joining(variables)
    assert "\n" not in str(error.value)
    assert next(iter(variables.values())) in str(error.value) or str(clean) in str(error.value)


def test_the_modules_that_name_the_token_agree_on_the_variables() -> None:
    assert RAY_VARIABLES[1:4] == (ray_auth.MODE, ray_auth.TOKEN, ray_auth.TOKEN_PATH)
