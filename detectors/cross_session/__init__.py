"""Patterns of runaway behaviour across sessions. They are pure, and read signals only."""

from collections.abc import Mapping
from typing import Any

from haltline.detectors.cross_session.base import CrossSessionPattern
from haltline.detectors.cross_session.budgets import AgentBudget, MissionBudget, TreeBudget
from haltline.detectors.cross_session.destruction import AgentDestruction, MissionDestruction, TreeDestruction
from haltline.detectors.cross_session.fleet_spike import FleetSpike
from haltline.detectors.cross_session.respawn import Respawn
from haltline.detectors.cross_session.spawn_storm import SpawnStorm
from haltline.detectors.cross_session.target_destruction import TargetDestruction

ACROSS: tuple[type[CrossSessionPattern[Any]], ...] = (
    AgentBudget,
    AgentDestruction,
    FleetSpike,
    MissionBudget,
    MissionDestruction,
    Respawn,
    SpawnStorm,
    TargetDestruction,
    TreeBudget,
    TreeDestruction,
)
"""All patterns across sessions, in the order in which they observe a signal. One that is not listed does not run."""

ACROSS_BY_ID: Mapping[str, type[CrossSessionPattern[Any]]] = {pattern.id: pattern for pattern in ACROSS}
