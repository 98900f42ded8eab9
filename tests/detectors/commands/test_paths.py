import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.commands import Badness
from haltline.detectors.commands.paths import badness, canonical

SCRATCH, PLAIN, SEVERE = Badness.SCRATCH, Badness.PLAIN, Badness.SEVERE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("a//b/./c/", "a/b/c", id="doubled slashes and dots go"),
        pytest.param("/tmp/../etc", "/etc", id="going up from tmp leaves tmp"),
        pytest.param("/..", "/", id="there is nothing above the root"),
        pytest.param("../a", "../a", id="what is above the unknown stays"),
        pytest.param("a/../..", "..", id="going up past the start stays"),
        pytest.param("~/../x", "/home/x", id="above a home are the homes"),
        pytest.param("$X/../y", "$X/../y", id="above something unknown is unknown"),
        pytest.param(".", ".", id="here is here"),
    ],
)
def test_canonical(path: str, expected: str) -> None:
    assert canonical(path) == expected


@pytest.mark.parametrize(
    ("path", "one", "all_below"),
    [
        pytest.param("src/a", PLAIN, PLAIN, id="a folder of the work is one among many"),
        pytest.param("/opt/app", PLAIN, PLAIN, id="an installed program is one among many"),
        pytest.param("/data", PLAIN, SEVERE, id="a folder at the root is severe"),
        pytest.param("/home/u", PLAIN, SEVERE, id="a home is severe"),
        pytest.param("/home/u/work", PLAIN, PLAIN, id="a folder of a home is one among many"),
        pytest.param("/home/u/.ssh", PLAIN, SEVERE, id="keys are severe"),
        pytest.param("/mnt/lake", PLAIN, SEVERE, id="a mount is severe"),
        pytest.param("/var/lib/docker", PLAIN, SEVERE, id="the data of an engine is severe"),
        pytest.param("/usr/lib/node_modules/x", PLAIN, PLAIN, id="scratch names in the system are no scratch"),
        pytest.param("/usr/src/app/node_modules", SCRATCH, SCRATCH, id="sources in the system are work"),
        pytest.param("/etc/passwd", SEVERE, SEVERE, id="what all depend on is severe"),
        pytest.param("/tmp", PLAIN, PLAIN, id="all of tmp is somebody's too"),
        pytest.param("/tmp/a/.git", SCRATCH, SCRATCH, id="a repository in tmp is scratch"),
        pytest.param("build/prod", SCRATCH, SCRATCH, id="production in build output is scratch"),
        pytest.param("prod/build", PLAIN, PLAIN, id="build output of production is somebody's"),
        pytest.param("src/target/x.rs", PLAIN, SCRATCH, id="a source file in target is somebody's"),
        pytest.param("~/build", SCRATCH, SCRATCH, id="build output in a home is scratch"),
        pytest.param("a~", SCRATCH, SCRATCH, id="an editor's copy is scratch"),
        pytest.param("~", PLAIN, SEVERE, id="a home is no editor's copy"),
        pytest.param("tests/snapshots/a", PLAIN, PLAIN, id="test data is somebody's"),
    ],
)
def test_badness(path: str, one: Badness, all_below: Badness) -> None:
    assert (badness(path, everything=False), badness(path, everything=True)) == (one, all_below)


PATHS = st.lists(
    st.sampled_from(["..", ".", "", "a", "tmp", "build", "etc", "prod", "*", "~", "$X", ".git"]), max_size=8
).map("/".join)


@given(PATHS, st.sampled_from([None, "/w/d", "~", "x"]))
def test_canonical_is_stable(path: str, cwd: str | None) -> None:
    assert canonical(canonical(path, cwd)) == canonical(path, cwd)


@given(PATHS)
def test_no_detour_makes_a_path_better(path: str) -> None:
    straight = badness(canonical(f"/{path}"), everything=True)

    assert badness(canonical(f"/tmp/x/../../{path}"), everything=True) == straight
    assert badness(canonical(f"/build/.././{path}"), everything=True) == straight


@given(PATHS)
def test_all_below_is_never_better_than_one_unless_it_is_scratch(path: str) -> None:
    one, all_below = (badness(canonical(path), everything=everything) for everything in (False, True))

    assert all_below >= one or all_below is SCRATCH
