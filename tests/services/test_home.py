import os
import stat
from pathlib import Path

import pytest

from pidispatch.errors import ConfigurationRefused
from pidispatch.services.account import Account
from pidispatch.services.faults import AlreadyRunning, OutOfReach, PathTooLong
from pidispatch.services.home import Home
from tests.services.conftest import gone, seconds_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")

HOLD = """
    import sys, time
    from pathlib import Path
    from pidispatch.services.home import Home

    home = Home(Path(sys.argv[1]) / "home", Path(sys.argv[1]) / sys.argv[2])
    with home.lock():
        home.publish(database="postgresql://one", redis="unix://one")
        print("held", flush=True)
        time.sleep(60)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def held(process, folder: Path) -> Home:
    assert process.stdout.readline() == "held\n"
    return Home(folder / "user" / "home", folder / "user" / "run")


def test_a_second_up_of_one_home_is_refused_and_told_the_pid(start_script, short_directory):
    process = start_script(HOLD, "run")
    home = held(process, short_directory)

    with pytest.raises(AlreadyRunning) as refusal, home.lock():
        pass

    assert refusal.value.pid == process.pid
    assert str(process.pid) in str(refusal.value)


def test_two_homes_do_not_share_one_run_directory(start_script, short_directory):
    process = start_script(HOLD, "run")
    other = Home(short_directory / "other", held(process, short_directory).run)

    with pytest.raises(AlreadyRunning) as refusal, other.lock():
        pass

    assert refusal.value.pid == process.pid


def test_another_process_learns_the_urls_only_while_their_owner_lives(start_script, short_directory):
    process = start_script(HOLD, "run")
    home = held(process, short_directory)
    urls = home.running_urls()

    process.kill()
    seconds_until(lambda: gone(process.pid), 5)

    assert (urls.database, urls.redis, urls.pid) == ("postgresql://one", "unix://one", process.pid)
    assert home.state_file.exists()
    assert home.running_urls() is None


def test_urls_of_a_killed_up_are_not_believed_while_the_next_one_starts(home):
    with home.lock():
        home.publish(database="postgresql://old", redis="unix://old")
        home.state_file.write_text(home.state_file.read_text().replace(str(os.getpid()), "1"))

        assert home.running_urls() is None


def test_the_state_file_is_private_and_gone_after_a_clean_end(home):
    with home.lock():
        home.publish(database="postgresql://one", redis="unix://one")
        private = mode(home.state_file)

    assert private == 0o600
    assert not home.state_file.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"pid": 1}', '{"database": 1, "redis": 2, "pid": "x", "more": 3}']
)
def test_a_damaged_state_file_means_that_nothing_runs(home, text):
    with home.lock():
        home.state_file.write_text(text)

        assert home.running_urls() is None


def test_reading_the_urls_does_not_disturb_a_starting_up(home):
    for _ in range(50):
        assert home.running_urls() is None

    with home.lock():
        assert home.running_pid() == os.getpid()


def test_a_run_directory_too_long_for_sockets_is_refused_with_its_length(short_directory):
    home = Home(short_directory / "home", short_directory / ("r" * 90))

    with pytest.raises(PathTooLong, match=r"at most 107 work: choose a shorter run directory"):
        home.prepare()

    assert not home.root.exists()


def test_paths_that_servers_would_misread_are_refused(short_directory):
    with pytest.raises(ConfigurationRefused, match="absolute"):
        Home(Path("home"), short_directory / "run").prepare()
    with pytest.raises(ConfigurationRefused, match="comma"):
        Home(short_directory / "home", short_directory / "a,b").prepare()


def test_an_ordinary_users_home_is_private(short_directory):
    home = Home(short_directory / "home", short_directory / "run")

    home.prepare(None)

    assert [mode(path) for path in (home.root, home.run, home.logs)] == [0o700] * 3


@needs_root
def test_a_home_is_opened_just_enough_for_the_servers_user(short_directory, account):
    home = Home(short_directory / "home", short_directory / "run")
    with home.lock(account):
        pass

    assert [mode(path) for path in (home.root, home.root / "data", home.run, home.logs)] == [
        0o711,
        0o711,
        0o711,
        0o700,
    ]


@needs_root
def test_a_parent_that_keeps_others_out_is_left_as_it_is_and_named(short_directory, account):
    private = short_directory / "private"
    private.mkdir(mode=0o700)
    home = Home(private / "home", short_directory / "run")

    with pytest.raises(OutOfReach) as refusal:
        home.prepare(account)

    assert str(private) in str(refusal.value)
    assert account.name in str(refusal.value)
    assert mode(private) == 0o700


@needs_root
def test_a_directory_with_other_peoples_files_is_not_taken_for_a_home(short_directory, account):
    mine = short_directory / "mine"
    mine.mkdir(mode=0o700)
    (mine / "letter").write_text("private")

    with pytest.raises(OutOfReach), Home(mine, short_directory / "run").lock(account):
        pass

    assert mode(mine) == 0o700


def test_a_home_among_other_files_keeps_its_mode_at_every_start(short_directory):
    mine = short_directory / "mine"
    mine.mkdir()
    mine.chmod(0o755)
    (mine / "letter").touch()
    home = Home(mine, short_directory / "run")

    for _ in range(2):
        with home.lock():
            pass

    assert mode(mine) == 0o755


@needs_root
def test_a_data_directory_of_an_earlier_user_changes_hands_without_following_links(short_directory):
    from pidispatch.services.account import give_directory

    outside = short_directory / "outside"
    outside.write_text("root's")
    data = short_directory / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "link").symlink_to(outside)
    (data / "deep" / "file").touch()

    give_directory(data, Account("nobody", 65534, 65534))

    assert outside.stat().st_uid == 0
    assert (data / "deep" / "file").stat().st_uid == 65534
