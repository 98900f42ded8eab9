from haltline.detectors.session.secret_sent import SecretSent
from haltline.schemas.events import ActionEvent, Outcome, SentSecret
from tests.builders import cases, event, fires_at

ELSEWHERE = SentSecret(kind="github_token", digest="0a1b2c3d", elsewhere=True)
HIGH, CRITICAL = [(0, "secret_sent", "high")], [(0, "secret_sent", "critical")]
UNKNOWN = SentSecret(kind="jwt", digest="1a1b2c3d")


@cases(
    "attempt, fires",
    {
        "a secret with hosts of its own goes elsewhere": (event(0, "http_post", secrets_sent=[ELSEWHERE]), CRITICAL),
        "a secret whose hosts are not known": (event(0, "http_post", secrets_sent=[UNKNOWN]), HIGH),
        "both": (event(0, "http_post", secrets_sent=[UNKNOWN, ELSEWHERE]), CRITICAL),
        "none": (event(0, "http_post"), []),
        "an empty list": (event(0, "http_post", secrets_sent=[]), []),
        "refused before": (event(0, "http_post", secrets_sent=[ELSEWHERE], outcome=Outcome.REFUSED), []),
    },
)
def test_fires(attempt: ActionEvent, fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(SecretSent(), [attempt]) == fires


def test_what_is_allowed_is_free() -> None:
    attempts = [event(0, "http_post", secrets_sent=[UNKNOWN]), event(1, "http_post", secrets_sent=[ELSEWHERE])]
    assert fires_at(SecretSent(allowed=("jwt", "0a1b2c3d")), attempts) == []
    assert fires_at(SecretSent(allowed=("jwt",)), attempts) == [(1, "secret_sent", "critical")]
