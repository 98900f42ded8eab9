"""Patterns of runaway behaviour across sessions, one file each. They are pure, and read signals only."""

from collections.abc import Mapping
from typing import Any

from haltline.detectors.cross_session.agent_budget import AgentBudget
from haltline.detectors.cross_session.agent_destruction import AgentDestruction
from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.cross_session.fleet_spike import FleetSpike
from haltline.detectors.cross_session.mission_budget import MissionBudget
from haltline.detectors.cross_session.mission_destruction import MissionDestruction
from haltline.detectors.cross_session.respawn import Respawn
from haltline.detectors.cross_session.spawn_storm import SpawnStorm
from haltline.detectors.cross_session.target_destruction import TargetDestruction
from haltline.detectors.cross_session.tree_destruction import TreeDestruction

ACROSS: tuple[type[CrossSessionPattern[Any]], ...] = (
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
"""All patterns across sessions, in the order in which they observe a signal. One that is not listed does not run."""

ACROSS_BY_ID: Mapping[str, type[CrossSessionPattern[Any]]] = {pattern.id: pattern for pattern in ACROSS}
