"""How the engines and records that tests compare with are found and fetched, with a Debian of two shell scripts."""

import os
from dataclasses import replace
from pathlib import Path

import oracles
import pytest

APT_GET = """#!/bin/sh
echo "$@" >> "$HOME/apt-get.log"
case "$*" in
  *indextargets*)
    case "$*" in *Lists*) ;; *) [ ! -e "$HOME/no-lists" ] || exit 0 ;; esac
    echo "file:/mirror stable main"; echo "file:/mirror stable main"; exit 0 ;;
  *" source "*)
    for package; do :; done
    mkdir -p "$package-1.0/tests"
    [ -e "$HOME/no-games" ] || echo "1. e4 *" > "$package-1.0/tests/some.pgn"
    echo "int main" > "$package-1.0/main.c"
    tar --create --gzip --file "${package}_1.0.orig.tar.gz" "$package-1.0"
    rm -r "$package-1.0"
    if [ -e "$HOME/broken" ]; then echo "Hash Sum mismatch" >&2; exit 100; fi
    exit 0 ;;
  *Lists*download*) ;;
  *download*) if [ -e "$HOME/no-lists" ]; then echo "no such package" >&2; exit 100; fi ;;
  *) exit 0 ;;
esac
packages=
for word; do
  if [ -n "$packages" ]; then echo "$word" > "$word.deb"; fi
  if [ "$word" = download ]; then packages=follow; fi
done
"""
DPKG_DEB = """#!/bin/sh
package=$(cat "$2")
mkdir -p "$3/usr/games" "$3/usr/lib/machine"
if [ "$package" = gnugo ]; then
  cat > "$3/usr/games/gnugo" << 'END'
#!/bin/sh
if [ -e "$HOME/needs-library" ]; then [ -e "${LD_LIBRARY_PATH%%:*}/libreadline8.so.8" ] || exit 127; fi
echo "GNU Go 3.8 $1"
END
  chmod +x "$3/usr/games/gnugo"
else
  touch "$3/usr/lib/machine/$package.so.8"
fi
"""


@pytest.fixture
def debian(tmp_path, monkeypatch):
    """A home without engines, and the two tools on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("apt-get", APT_GET), ("dpkg-deb", DPKG_DEB)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setattr(oracles, "CACHE", tmp_path / "a cache" / "oracles")
    monkeypatch.setattr(oracles, "GAMES", tmp_path / "games")
    monkeypatch.setattr(oracles, "ENGINES", {"gnugo": oracles.ENGINES["gnugo"]})
    monkeypatch.setattr(oracles, "RECORDS", {})
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SHUSAKU_GNUGO", "SHUSAKU_PGN_EXTRACT_GAMES", "CI"):
        monkeypatch.delenv(name, raising=False)
    if oracles.find("gnugo"):
        pytest.skip("gnugo lies in /usr/bin or /bin")
    return tmp_path


def test_an_engine_that_is_not_here_skips_a_test(debian):
    with pytest.raises(pytest.skip.Exception, match=r"`make oracles` fetches it, or set SHUSAKU_GNUGO"):
        oracles.engine("gnugo")


def test_an_engine_that_is_not_here_fails_a_test_of_continuous_integration(debian, monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="gnugo is not here"):
        oracles.engine("gnugo")


def test_it_is_fetched_once_and_then_found(debian, capsys):
    assert oracles.main() == 0
    assert oracles.main() == 0
    program = debian / "a cache" / "oracles" / "bin" / "gnugo"
    assert capsys.readouterr().out.splitlines() == [f"gnugo: {program}: GNU Go 3.8 --version"] * 2
    assert oracles.engine("gnugo") == str(program)
    assert len((debian / "apt-get.log").read_text().splitlines()) == 1


def test_package_lists_of_its_own_where_the_system_has_none(debian):
    (debian / "no-lists").touch()
    assert oracles.main() == 0
    assert "update" in (debian / "apt-get.log").read_text()


def test_libraries_come_along_where_it_does_not_start_without(debian):
    (debian / "needs-library").touch()
    assert oracles.main() == 0
    assert oracles.starts("gnugo", Path(oracles.engine("gnugo"))) == "GNU Go 3.8 --version"
    assert "libtinfo6" in (debian / "apt-get.log").read_text()


def test_what_it_reads_when_it_plays_comes_along(debian, monkeypatch):
    home = ("GNUGO_HOME", "usr/lib/machine")
    gnugo = replace(oracles.ENGINES["gnugo"], data=("gnugo-data",), homes=(home,))
    monkeypatch.setattr(oracles, "ENGINES", {"gnugo": gnugo})
    (debian / "needs-library").touch()
    assert oracles.main() == 0
    wrapper = Path(oracles.engine("gnugo"))
    folder = wrapper.parent.parent / "gnugo" / home[1]
    assert (folder / "gnugo-data.so.8").exists()
    assert f"GNUGO_HOME='{folder}' LD_LIBRARY_PATH='{folder}' exec" in wrapper.read_text()
    assert oracles.starts("gnugo", wrapper)


def test_a_broken_one_in_the_cache_is_fetched_anew(debian):
    assert oracles.main() == 0
    program = Path(oracles.engine("gnugo"))
    program.write_text("#!/bin/sh\nexit 3\n")
    assert oracles.main() == 0
    assert oracles.starts("gnugo", program)


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_no_debian_is_a_message_and_under_ci_a_failure(debian, monkeypatch, capsys, ci, status):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(oracles.shutil, "which", lambda *_, **__: None)
    assert oracles.main() == status
    assert "apt-get is not on PATH" in capsys.readouterr().err


def test_the_users_own_comes_first_and_is_not_replaced(debian, monkeypatch, capsys):
    assert oracles.main() == 0
    monkeypatch.setenv("SHUSAKU_GNUGO", str(debian / "mine"))
    assert oracles.engine("gnugo") == str(debian / "mine")
    monkeypatch.setenv("CI", "true")
    assert oracles.main() == 1
    assert "mine" in capsys.readouterr().err
    assert not os.path.exists(debian / "mine")


@pytest.fixture
def sources(debian, monkeypatch):
    """The same home, where only records are wanted."""
    monkeypatch.setattr(oracles, "ENGINES", {})
    monkeypatch.setattr(oracles, "RECORDS", {"pgn-extract-games": oracles.Records("pgn-extract", ".pgn")})
    return debian


def test_records_that_are_not_here_skip_a_test_and_fail_one_of_continuous_integration(sources, monkeypatch):
    with pytest.raises(pytest.skip.Exception, match=r"`make oracles` fetches them, or set SHUSAKU_PGN_EXTRACT_GAMES"):
        oracles.records("pgn-extract-games")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="pgn-extract-games are not here"):
        oracles.records("pgn-extract-games")


def test_records_are_fetched_once_out_of_the_source_package(sources, monkeypatch, capsys):
    monkeypatch.setattr(oracles, "KEYS", sources / "keys")
    (sources / "keys").touch()
    assert oracles.main() == 0
    log = (sources / "apt-get.log").read_text()
    assert oracles.main() == 0
    assert (sources / "apt-get.log").read_text() == log
    folder = sources / "a cache" / "oracles" / "pgn-extract-games"
    assert capsys.readouterr().out.splitlines() == [f"pgn-extract-games: {folder}: 1 files"] * 2
    assert oracles.records("pgn-extract-games") == folder
    assert [file for file in folder.rglob("*") if file.is_file()] == [folder / "tests" / "some.pgn"]
    written = folder.parent / "apt-sources" / "sources.list"
    assert written.read_text() == f"deb-src [signed-by={sources / 'keys'}] file:/mirror stable main\n"
    update, source = log.splitlines()[1:]
    assert f"SourceList={written}" in update
    assert update.endswith(" update")
    assert source.endswith(" source --download-only --tar-only --only-source pgn-extract")


def test_records_where_the_system_has_no_package_lists(sources):
    (sources / "no-lists").touch()
    assert oracles.main() == 0
    assert oracles.records("pgn-extract-games").is_dir()


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
@pytest.mark.parametrize(("trouble", "reason"), [("broken", "Hash Sum mismatch"), ("no-games", "Not found in archive")])
def test_records_that_do_not_come_are_a_message_and_no_folder(
        sources, monkeypatch, capsys, ci, status, trouble, reason):
    (sources / trouble).touch()
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("LC_ALL", "C")
    assert oracles.main() == status
    said = capsys.readouterr().err
    assert reason in said
    assert "set SHUSAKU_PGN_EXTRACT_GAMES to their folder" in said
    assert oracles.find("pgn-extract-games") is None


def test_a_cache_without_records_is_filled_anew_but_not_the_users_folder(sources, monkeypatch, capsys):
    assert oracles.main() == 0
    game, = oracles.records("pgn-extract-games").rglob("*.pgn")
    game.unlink()
    assert oracles.main() == 0
    assert game.exists()
    (sources / "mine").mkdir()
    monkeypatch.setenv("SHUSAKU_PGN_EXTRACT_GAMES", str(sources / "mine"))
    monkeypatch.setenv("CI", "true")
    assert oracles.records("pgn-extract-games") == sources / "mine"
    assert oracles.main() == 1
    assert "mine holds no .pgn files" in capsys.readouterr().err
    assert not any((sources / "mine").iterdir())


def test_folders_of_other_owners_are_left_out(sources, monkeypatch):
    wanted = {"theirs": oracles.Records("gnugo", ".pgn", without=("tests",)), "ours": oracles.Records("gnugo", ".pgn")}
    monkeypatch.setattr(oracles, "RECORDS", wanted)
    assert [file.name for file in oracles.fetch_records("ours").rglob("*.pgn")] == ["some.pgn"]
    assert not list(oracles.fetch_records("theirs").rglob("*.pgn"))


def test_records_of_pypi_come_by_pip(sources, monkeypatch):
    monkeypatch.setattr(oracles, "RECORDS", {"kombilo-games": oracles.Records("kombilo", ".pgn", is_of_pypi=True)})
    pip = sources / "tools" / "python"
    pip.write_text(APT_GET.replace('case "$*" in\n', 'set -- "$*" source "${!#}"\ncase "$*" in\n', 1)
                   .replace("#!/bin/sh", "#!/bin/bash").replace(".orig.tar.gz", ".tar.gz"))
    pip.chmod(0o755)
    monkeypatch.setattr(oracles.sys, "executable", str(pip))
    assert oracles.main() == 0
    assert [file.name for file in oracles.records("kombilo-games").rglob("*.pgn")] == ["some.pgn"]
    assert "-m pip download --quiet --no-deps --no-binary :all:" in (sources / "apt-get.log").read_text()
