"""The client of a model with an OpenAI-compatible API: chat completions, with an answer by a JSON Schema.

The key is only in a header: errors contain neither the key nor the server's answer.
"""

import logging
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final, Literal

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from haltline.schemas.opinions import OpinionOutcome, Verdict
from haltline.schemas.problems import problem_of
from haltline.streams.opinion.digest import Digest

MAX_OUTPUT_TOKENS: Final = 400
_MAX_BYTES: Final = 256 * 1024
_SCHEMA: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["verdict", "since_step", "why", "tell"],
    "properties": {
        "verdict": {"type": "string", "enum": [verdict.value for verdict in Verdict]},
        "since_step": {"type": ["integer", "null"]},
        "why": {"type": "string"},
        "tell": {"type": "string"},
    },
}

logging.getLogger("httpx2").setLevel(logging.WARNING)


class NoVerdict(Exception):
    """There is no verdict: the outcome, and why, without secrets."""

    def __init__(self, outcome: OpinionOutcome, detail: str, used: "Usage | None" = None) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
        self.detail = detail[:500]
        self.used = used


class Answer(BaseModel):
    """The model's answer."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    verdict: Literal["runaway", "sound"]
    since_step: Annotated[int, Field(ge=1)] | None
    why: Annotated[str, Field(min_length=1, max_length=4000)]
    tell: Annotated[str, Field(max_length=4000)]


class Usage(BaseModel):
    """The model's usage."""

    prompt_tokens: Annotated[int, Field(ge=0, le=10_000_000)]
    completion_tokens: Annotated[int, Field(ge=0, le=10_000_000)]


class _Message(BaseModel):
    content: str


class _Choice(BaseModel):
    message: _Message


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: Usage | None = None


@dataclass(frozen=True)
class Judge:
    """A client of one model. `url` is the address of the API, such as https://api.openai.com/v1."""

    url: str
    model: str
    key: str = ""

    def __post_init__(self) -> None:
        """Check the address. Raises ValueError if it is invalid."""
        if not self.url.startswith(("https://", "http://")):
            raise ValueError(f"url: expected an address with https://, got {self.url!r:.80}")

    def ask(self, digest: Digest, timeout_s: float) -> tuple[Answer, Usage | None]:
        """Return the answer, and its usage if the server reports it. Raises NoVerdict."""
        completion = self._completion(digest, timeout_s)
        content, used = completion.choices[0].message.content, completion.usage
        try:
            answer = Answer.model_validate_json(content)
        except ValidationError as error:
            raise NoVerdict(OpinionOutcome.INVALID, f"answer: {problem_of(error)}", used) from None
        steps = len(digest.event_ids)
        if answer.since_step is not None and answer.since_step > steps:
            detail = f"answer: since_step: expected at most {steps}, got {answer.since_step}"
            raise NoVerdict(OpinionOutcome.INVALID, detail, used)
        return answer, used

    def _completion(self, digest: Digest, timeout_s: float) -> _Completion:
        body = {
            "model": self.model,
            "messages": digest.messages,
            "temperature": 0,
            "max_tokens": MAX_OUTPUT_TOKENS,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "opinion", "strict": True, "schema": _SCHEMA},
            },
        }
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        try:
            data = self._post(body, headers, timeout_s)
        except httpx2.TimeoutException as error:
            raise NoVerdict(OpinionOutcome.TIMEOUT, f"no answer: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            raise NoVerdict(OpinionOutcome.ERROR, f"no answer: {type(error).__name__}") from None
        try:
            return _Completion.model_validate_json(data)
        except ValidationError as error:
            raise NoVerdict(OpinionOutcome.INVALID, f"response: {problem_of(error)}") from None

    def _post(self, body: dict[str, object], headers: dict[str, str], timeout_s: float) -> bytes:
        ends_s, data = time.monotonic() + timeout_s, b""
        url = f"{self.url.rstrip('/')}/chat/completions"
        with httpx2.stream("POST", url, json=body, headers=headers, timeout=timeout_s) as response:
            if response.status_code != HTTPStatus.OK:
                raise NoVerdict(OpinionOutcome.ERROR, f"expected status 200, got {response.status_code}")
            for chunk in response.iter_raw():
                data += chunk
                if len(data) > _MAX_BYTES:
                    raise NoVerdict(OpinionOutcome.INVALID, f"response: expected at most {_MAX_BYTES} bytes, got more")
                if time.monotonic() > ends_s:
                    raise NoVerdict(OpinionOutcome.TIMEOUT, "the response did not end in time")
        return data
