"""Events from other producers, redacted and bounded as by the guard."""

from typing import Any

from haltline.interventions.agent.call import WITH_RESULT
from haltline.interventions.agent.novelty import SeenBySession
from haltline.interventions.agent.redaction.payload_encoding import Whole, plain, plain_text
from haltline.interventions.agent.redaction.secrets import without_secrets
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.repeated_passage import repeated_passage

_MAX_TARGET_CHARS = 504
_MAX_ERROR_CHARS = 2000


def cleaned(event: ActionEvent, settings: GuardSettings, seen: SeenBySession | None = None) -> ActionEvent:
    """Return the event ready for publishing. A producer's digest stays, as only the producer has the complete value.

    With `seen`, the new words of a complete result are counted, unless the producer has done so.
    """
    changes: dict[str, object] = {}
    if seen is not None and event.output_novelty is None and _has_whole_result(event):
        changes["output_novelty"] = seen.of(event.session_id).take(event.output_head, event.error, args=event.args)
    keys = settings.keys
    changes |= describe_arguments(event.args, settings)
    if event.args_digest is not None:
        changes["args_digest"] = event.args_digest
    if event.targets:
        changes["targets"] = [plain_text(target, max_chars=_MAX_TARGET_CHARS, keys=keys) for target in event.targets]
    if event.error is not None:
        changes["error"] = cleaned_error(event.error, settings)
    if event.output_head is not None:
        if event.output_digest is None:  # of the available part, so that repetition is detected
            changes["output_digest"] = plain(event.output_head, max_bytes=0, keys=keys).digest
        if event.kind is Kind.MODEL_TURN and event.output_repeats is None:
            changes["output_repeats"] = repeated_passage(event.output_head, event.output_bytes or 0)[1]
        changes["output_head"] = plain_text(event.output_head, max_chars=settings.max_output_chars, keys=keys)
    if event.task is not None:
        changes["task"] = without_secrets(event.task, keys)
    return event.model_copy(update=changes)


def describe_arguments(args: dict[str, Any] | Whole | None, settings: GuardSettings) -> dict[str, Any]:
    """Return the fields of an event about the arguments of its call, which may be a Whole."""
    if args is None:
        return {}
    shown = plain(args, max_bytes=settings.max_args_bytes, keys=settings.keys)
    return {"args": shown.value if isinstance(shown.value, dict) else None, "args_digest": shown.digest}


def cleaned_error(error: str, settings: GuardSettings) -> str:
    """Return the text of an error ready for publishing."""
    return plain_text(error, max_chars=_MAX_ERROR_CHARS, keys=settings.keys)


def _has_whole_result(event: ActionEvent) -> bool:
    head, size = event.output_head, event.output_bytes
    if event.kind is not Kind.COMPLETED or event.outcome not in WITH_RESULT:
        return False
    return event.error is not None if head is None else size == len(head.encode(errors="replace"))
