"""Modules that importing the agent's side or the core loads. `lint-imports`, in `make check`, holds the layers."""

import sys

from tests.conformance.environments import GATEWAYS, OWN, drivers
from tests.programs import printed

# What an agent must not pay for, in memory, start time or conflicts of versions.
PROCESSOR_ONLY = {"aiokafka", "arro3", "deltalake", "fastapi", "faust", "prometheus_client", "rich", "typer", "yaml"}


IMPORT_ALL = """
import importlib, pkgutil, sys

def import_all(name):
    module = importlib.import_module(name)
    for found in pkgutil.iter_modules(getattr(module, "__path__", ()), name + "."):
        if found.name not in sys.argv[1].split():
            import_all(found.name)

for root in sys.argv[2:]:
    import_all(root)
print(*sys.modules)
"""


def test_the_agents_side_loads_nothing_of_the_processor() -> None:
    # The local mode decides in the agent's own process and so needs the core; only who asks for it pays. So does a call
    # that may discard local work. A framework brings what it likes.
    parts = (
        "transport.local_decider",
        "snapshots.discards",
        *(f"integrations.{name}" for name, adapter in drivers().items() if adapter != OWN),
        *(f"integrations.{name}" for name in GATEWAYS),
    )
    but_not = " ".join(f"haltline.interventions.agent.{part}" for part in parts)
    loaded = _loaded("haltline.interventions.agent", but_not=but_not)
    assert {name.partition(".")[0] for name in loaded} & PROCESSOR_ONLY == set()
    assert {name for name in loaded if name.startswith(("haltline.streams", "haltline.detectors"))} == set()


def test_what_decides_loads_neither_a_kafka_client_nor_anything_of_the_processor() -> None:
    loaded = _loaded(
        *("haltline.schemas", "haltline.detectors", "haltline.interventions"), but_not="haltline.interventions.agent"
    )
    top_level = {name.partition(".")[0] for name in loaded}
    assert top_level & (PROCESSOR_ONLY | {"confluent_kafka"}) == set()
    assert "haltline.streams" not in loaded
    assert "haltline.cli" not in loaded


def test_what_installs_a_hook_or_releases_a_session_loads_no_guard() -> None:
    loaded = _loaded("haltline.cli.agent.hook_settings", "haltline.cli.agent.persons", but_not="")
    assert {name.partition(".")[0] for name in loaded} & {"pydantic", "confluent_kafka", "asyncio"} == set()


def _loaded(*roots: str, but_not: str) -> set[str]:
    """Every module that a fresh interpreter has loaded once all modules of these packages are imported."""
    loaded = set(printed(sys.executable, "-c", IMPORT_ALL, but_not, *roots).split())
    assert loaded >= set(roots)
    return loaded
