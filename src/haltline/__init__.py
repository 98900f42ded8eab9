"""haltline stops runaway AI agents while they run.

The agent's side can be had from here: `from haltline import Guard, Refused`; `load_policy` reads policy documents.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haltline.interventions.agent import Guard as Guard
    from haltline.interventions.agent import GuardSettings as GuardSettings
    from haltline.interventions.agent import Refused as Refused
    from haltline.streams.policy.loader import load_policy as load_policy

__all__ = ["Guard", "GuardSettings", "Refused", "__version__", "load_policy"]

__version__: str


def __getattr__(name: str) -> Any:
    # Late, so that the worker, which imports this package too, does not load the agent's side, and `haltline hook`,
    # which starts with every call of a tool, does not load what reads versions.
    if name == "__version__":
        globals()[name] = version = import_module("importlib.metadata").version("haltline")
        return version
    if name == "load_policy":
        return import_module("haltline.streams.policy.loader").load_policy
    if name in __all__:
        return getattr(import_module("haltline.interventions.agent"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
