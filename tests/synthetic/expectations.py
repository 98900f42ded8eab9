"""What is not right yet, in one place. Each entry is tested to be so still: whoever puts it right takes it out."""

from collections.abc import Mapping

NO_REPETITION = "no detector looks at calls that succeed"
NO_TALK = "no detector looks at what the model says"
NO_FLEET = "no detector looks across sessions"

NOT_YET: Mapping[str, str] = {
    "after_refusal": "refused deletes are not counted: it is stopped late, for its errors",
    "identical_reads": NO_REPETITION,
    "identical_writes": NO_REPETITION,
    "identical_commands": NO_REPETITION,
    "cycle_of_two": NO_REPETITION,
    "cycle_of_three": NO_REPETITION,
    "cycle_of_four": NO_REPETITION,
    "cycle_of_five": NO_REPETITION,
    "noisy_cycle": NO_REPETITION,
    "changing_arguments": NO_REPETITION,
    "shuffled_batches": NO_REPETITION,
    "polling_without_news": NO_REPETITION,
    "waiting_for_nobody": NO_REPETITION,
    "growing_cost": "a cost that doubles is throttled; only one that trebles is stopped, or a budget",
    "spawn_storm": NO_FLEET,
    "respawned_deletes": NO_FLEET,
    "scope_creep": "no detector compares paths with the task's",
    "monologue": NO_TALK,
    "empty_talk": NO_TALK,
    "chanting": NO_TALK,
}
"""Families of runaways of which not every case is stopped in time, and why."""

FALSE_ALARMS: Mapping[str, str] = {}
"""Families of healthy sessions of which some are stopped, and why."""

DISTURBED: Mapping[tuple[str, str], str] = {
    ("catastrophe", "lost"): "the one event that told of it is lost: inherent",
    ("swelling_turns", "lost"): "which calls are of one turn is told by their order",
    ("swelling_turns", "disordered"): "which calls are of one turn is told by their order",
    ("swelling_turns", "late"): "which calls are of one turn is told by their order",
}
"""Families that are right as they are, and not when their events are disturbed on their way."""
