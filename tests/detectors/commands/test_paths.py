from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.commands import Badness
from haltline.detectors.commands.paths import badness, canonical
from tests.builders import cases

SCRATCH, PLAIN, SEVERE = Badness.SCRATCH, Badness.PLAIN, Badness.SEVERE


@cases(
    "path, expected",
    {
        "doubled slashes and dots go": ("a//b/./c/", "a/b/c"),
        "going up from tmp leaves tmp": ("/tmp/../etc", "/etc"),
        "there is nothing above the root": ("/..", "/"),
        "what is above the unknown stays": ("../a", "../a"),
        "above a home are the homes": ("~/../x", "/home/x"),
        "above something unknown is unknown": ("$X/../y", "$X/../y"),
    },
)
def test_canonical(path: str, expected: str) -> None:
    assert canonical(path) == expected


@cases(
    "path, one, all_below",
    {
        "a folder of the work is one among many": ("src/a", PLAIN, PLAIN),
        "a folder at the root is severe": ("/data", PLAIN, SEVERE),
        "a home is severe": ("/home/u", PLAIN, SEVERE),
        "a mount is severe": ("/mnt/lake", PLAIN, SEVERE),
        "the data of an engine is severe": ("/var/lib/docker", PLAIN, SEVERE),
        "scratch names in the system are no scratch": ("/usr/lib/node_modules/x", PLAIN, PLAIN),
        "sources in the system are work": ("/usr/src/app/node_modules", SCRATCH, SCRATCH),
        "what all depend on is severe": ("/etc/passwd", SEVERE, SEVERE),
        "all of tmp is somebody's too": ("/tmp", PLAIN, PLAIN),
        "production in build output is scratch": ("build/prod", SCRATCH, SCRATCH),
        "build output of production is somebody's": ("prod/build", PLAIN, PLAIN),
        "a source file in target is somebody's": ("src/target/x.rs", PLAIN, SCRATCH),
        "build output in a home is scratch": ("~/build", SCRATCH, SCRATCH),
        "an editor's copy is scratch": ("a~", SCRATCH, SCRATCH),
        "a home is no editor's copy": ("~", PLAIN, SEVERE),
    },
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
