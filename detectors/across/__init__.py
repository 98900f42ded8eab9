"""What a runaway looks like across sessions: one pattern, one file. All of it is pure, and hears signals only."""

from collections.abc import Mapping
from typing import Any

from haltline.detectors.across.agent_baseline import AgentBaseline
from haltline.detectors.across.agent_budget import AgentBudget
from haltline.detectors.across.agent_destruction import AgentDestruction
from haltline.detectors.across.base import Across
from haltline.detectors.across.fleet_spike import FleetSpike
from haltline.detectors.across.mission_budget import MissionBudget
from haltline.detectors.across.mission_destruction import MissionDestruction
from haltline.detectors.across.respawn import Respawn
from haltline.detectors.across.spawn_storm import SpawnStorm
from haltline.detectors.across.target_destruction import TargetDestruction
from haltline.detectors.across.tree_destruction import TreeDestruction

ACROSS: tuple[type[Across[Any]], ...] = (
    AgentBaseline,
    AgentBudget,
    AgentDestruction,
    FleetSpike,
    MissionBudget,
    MissionDestruction,
    Respawn,
    SpawnStorm,
    TargetDestruction,
    TreeDestruction,
)
"""Every pattern across sessions, in the order in which they look at a signal. One that is not listed does not run."""

ACROSS_BY_ID: Mapping[str, type[Across[Any]]] = {pattern.id: pattern for pattern in ACROSS}
