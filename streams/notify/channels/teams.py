"""Teams' incoming webhooks (Workflows): an Adaptive Card."""

from typing import Any, Final

from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Failed, Secrets
from haltline.streams.notify.channels.http import Http, HttpSender
from haltline.streams.notify.notification_text import Message

_THROTTLED: Final = "HTTP error 429"
"""The error text of connectors, sent with status 200."""


class Teams(HttpSender):
    """One channel or chat, determined by the webhook's address."""

    def __init__(self, channel: config.Teams, secrets: Secrets) -> None:
        self._http = Http(secrets.read(channel.url_file), secrets, channel.timeout.total_seconds())

    def send(self, message: Message) -> None:
        """Send a message. Teams keeps duplicates; people recognize them by the incident's id."""
        reply = self._post(_body(message))
        if _THROTTLED in reply:
            raise Failed("expected the card to be accepted, got 429 in the answer's text", again=True)


def _body(message: Message) -> dict[str, Any]:
    single = message.single
    body: list[dict[str, Any]] = [_text(message.title, weight="Bolder", size="Medium")]
    actions: list[dict[str, Any]] = []
    if single is None:
        body += [_text(line) for line in message.lines()]
    else:
        body.append(_text(single.text))
        body.append({"type": "FactSet", "facts": [{"title": name, "value": value} for name, value in single.facts()]})
        actions = [{"type": "Action.OpenUrl", "title": title, "url": link} for title, link in single.links()]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        **({"actions": actions} if actions else {}),
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text(text: str, **style: str) -> dict[str, Any]:
    # A text run is not Markdown: texts of agents cannot contain links.
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text or "-", **style}]}
