"""Mail by SMTP. The changes of one incident are one thread, and a duplicate has the same Message-ID."""

import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final

from haltline.streams.notify import config
from haltline.streams.notify.channels.base import Failed, Secrets
from haltline.streams.notify.notification_text import Message, cut

_DOMAIN: Final = "haltline.invalid"
_FOR_NOW: Final = range(400, 500)


class Email:
    """Sends mail with one connection for each message: they are few, and servers close idle ones."""

    def __init__(self, channel: config.Email, secrets: Secrets) -> None:
        self._channel = channel
        self._secrets = secrets
        self._password = None if channel.password_file is None else secrets.read(channel.password_file)
        self._tls = ssl.create_default_context(cafile=None if channel.ca_file is None else str(channel.ca_file))

    def send(self, message: Message) -> None:
        """Send a message to all receivers. If the server accepts only some, it has failed for the others."""
        try:
            with self._connected() as server:
                refused = server.send_message(self._mail(message))
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise Failed(f"expected receivers, got {codes}", again=any(code in _FOR_NOW for code in codes)) from None
        except smtplib.SMTPResponseException as error:
            reply = error.smtp_error if isinstance(error.smtp_error, str) else error.smtp_error.decode(errors="replace")
            raise Failed(
                self._secrets.without(f"expected acceptance, got {error.smtp_code} {reply}"),
                again=error.smtp_code in _FOR_NOW or error.smtp_code < 0,
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise Failed(f"expected a valid certificate, got {error.verify_message}", again=True) from None
        except smtplib.SMTPNotSupportedError as error:
            raise Failed(self._secrets.without(f"expected STARTTLS and AUTH, got {error}"), again=False) from None
        except (OSError, smtplib.SMTPException) as error:
            raise Failed(self._secrets.without(f"no answer: {type(error).__name__}: {error}"), again=True) from None
        if refused:
            raise Failed(f"accepted, but not for {', '.join(refused)}", again=False)

    def close(self) -> None:
        """Do nothing: each message opens a connection."""

    def _connected(self) -> smtplib.SMTP:
        channel, timeout_s = self._channel, self._channel.timeout.total_seconds()
        if channel.tls == "implicit":
            server: smtplib.SMTP = smtplib.SMTP_SSL(channel.host, channel.port, timeout=timeout_s, context=self._tls)
        else:
            server = smtplib.SMTP(channel.host, channel.port, timeout=timeout_s)
        try:
            if channel.tls == "starttls":
                server.starttls(context=self._tls)
            if channel.user is not None and self._password is not None:
                server.login(channel.user, self._password)
        except BaseException:
            server.close()
            raise
        return server

    def _mail(self, message: Message) -> EmailMessage:
        mail = EmailMessage()
        # One line, whatever is in an agent's name.
        mail["Subject"] = cut(" ".join(f"[haltline] {message.title}".split()), 200)
        mail["From"] = self._channel.sender
        mail["To"] = ", ".join(self._channel.to)
        mail["Date"] = format_datetime(datetime.now(UTC))
        mail["Message-ID"] = f"<{message.message_id}@{_DOMAIN}>"
        mail["Auto-Submitted"] = "auto-generated"
        if (single := message.single) is not None:
            thread = "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in single.record.incident_id)
            mail["References"] = f"<{thread}@{_DOMAIN}>"
        mail.set_content(message.plain())
        return mail
