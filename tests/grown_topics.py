"""What the last release that could grow topics wrote when `haltline.` was grown to `haltline.2.`."""

GROWN = (
    b'{"v": 1, "scope": "session", "id": "topics", "state": "probation", "code": "topics", "since": 1750000000000, '
    b'"decision_id": "topics", "reason": "topics in use: haltline.2.*", "prefixes": ["haltline.", "haltline.2."]}'
)
"""The value under the key `topics`, in `control` of both."""
