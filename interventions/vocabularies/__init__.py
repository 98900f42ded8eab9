"""A decision in the vocabularies of four systems: a pure function from Decision to a typed record for each.

What a vocabulary cannot express is left out, never invented: our record of the decision is complete.
"""

from collections.abc import Callable, Mapping
from typing import Final

from haltline.interventions.vocabularies import acgp, agent_sentinel, pipeline, tappass
from haltline.schemas.decisions import Decision
from haltline.schemas.intervening import Vocabulary
from haltline.schemas.record import Record

RENDER: Final[Mapping[Vocabulary, Callable[[Decision], Record | None]]] = {
    Vocabulary.PIPELINE: pipeline.render,
    Vocabulary.ACGP: acgp.render,
    Vocabulary.AGENT_SENTINEL: agent_sentinel.render,
    Vocabulary.TAPPASS: tappass.render,
}


def render(decision: Decision, vocabulary: Vocabulary) -> Record | None:
    """Return the decision in a vocabulary; None: it has no record for such a decision."""
    return RENDER[vocabulary](decision)
