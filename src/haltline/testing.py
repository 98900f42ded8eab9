"""For the tests of agents: a guard without a broker, whose verdicts come from a list.

from haltline.testing import Level, ScriptedGuard
"""

from haltline.interventions.agent.testing import ScriptedGuard, Verdict, decision, killed
from haltline.schemas.decisions import Level

__all__ = ["Level", "ScriptedGuard", "Verdict", "decision", "killed"]
