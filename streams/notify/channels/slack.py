"""Slack's incoming webhooks: Block Kit, with buttons that open the console."""

from urllib.error import URLError

from slack_sdk.errors import SlackClientError
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    HeaderBlock,
    MarkdownTextObject,
    PlainTextObject,
    SectionBlock,
)
from slack_sdk.webhook import WebhookClient

from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Failed, Secrets
from haltline.streams.notify.channels.http import require_accepted
from haltline.streams.notify.notification_text import Message, cut


class Slack:
    """One channel of one workspace, determined by the webhook's address."""

    def __init__(self, channel: config.Slack, secrets: Secrets) -> None:
        self._secrets = secrets
        # Retries are ours, with every other channel's rules.
        self._client = WebhookClient(
            secrets.read(channel.url_file), timeout=int(channel.timeout.total_seconds()) or 1, retry_handlers=[]
        )

    def send(self, message: Message) -> None:
        """Send a message. Slack keeps duplicates; people recognize them by the incident's id."""
        try:
            answer = self._client.send(text=_escaped(message.title), blocks=_blocks(message))
        except (URLError, OSError, SlackClientError) as error:
            raise Failed(self._secrets.without(f"no answer: {type(error).__name__}: {error}"), again=True) from None
        headers = {name.lower(): value for name, value in answer.headers.items()}
        require_accepted(answer.status_code, answer.body, headers.get("retry-after"), self._secrets)

    def close(self) -> None:
        """Do nothing: each message opens a connection."""


def _blocks(message: Message) -> list[Block]:
    blocks: list[Block] = [HeaderBlock(text=PlainTextObject(text=cut(message.title, 150)))]
    single = message.single
    if single is None:
        lines = "\n".join(f"• {_escaped(line)}" for line in message.lines())
        return [*blocks, SectionBlock(text=MarkdownTextObject(text=cut(lines, 3000)))]
    blocks.append(SectionBlock(text=MarkdownTextObject(text=_escaped(single.text) or "-")))
    facts = [MarkdownTextObject(text=f"*{name}*\n{_escaped(value)}") for name, value in single.facts()]
    blocks += [SectionBlock(fields=facts[start : start + 10]) for start in range(0, len(facts), 10)]
    buttons = []
    for text, link in single.links():
        action, style = ("approval", "primary") if link == single.approval_link else ("session", None)
        buttons.append(
            ButtonElement(text=PlainTextObject(text=text), url=link, action_id=f"haltline-{action}", style=style)
        )
    return [*blocks, ActionsBlock(elements=buttons)] if buttons else blocks


def _escaped(text: str) -> str:
    """Return the text escaped: texts of agents cannot mention people or contain links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
