"""The prompts of a session's user, and whether one says something new.

`continue` answers an agent that stopped, and tells it nothing that it did not know: what it does after it is judged
together with what it did before. The same holds for praise, for `yes`, and for a prompt that was given before, as a
program gives it that starts an agent again and again. `no`, a number and any other word are new.

Misses: other languages, and other words for the same (`what about the rest?`), which count as new.
"""

from collections.abc import Container
from hashlib import blake2b
from typing import Final

from haltline.schemas import expressions as re

_WORD: Final = re.compile(r"\w+")
_MOST_WORDS: Final = 16
"""A text of more words says something, whatever words they are."""
GO_ON: Final = frozenset(
    _WORD.findall("""
    a again ahead alright and are as begin carry continue continued continuing cool did do doing excellent fine forward
    from further go going good got great have i in is it just k keep kindly left let lets lgtm like may me more move
    moving next nice now of off ok okay on onward onwards perfect please pls plz point proceed proceeding re resume
    resuming retry right s session so start started still stopped sure task thank thanks that the then there this thx
    to try trying up ve we were where with work working y ye yeah yep yes you your yup
    also bist bitte danke dann dem den der du einmal fahr fahre fort fortfahren fortsetzen genau gerne gut ja jetzt klar
    los mach mache machen mal noch nochmal passt prima super und versuch versuche weiter weiterhin weitermachen wo
    accord allez allons avance avancer continuer continues continuez d encore il merci oui parfait plaît poursuis
    poursuivez reprends te vas vous
    adelante avanza bien continua continuar continúa continúe dale de favor gracias hazlo listo otra por prosigue
    reanuda seguir si siga sigue sí vale vez avançar novo obrigada obrigado prossiga prosseguir retome sim
    ancora avanti bene continuare continui grazie per perfetto procedi prosegui riprendi riprova sì vai
    bedankt doorgaan ga goed verder dalej dobra dobrze dzięki kontynuuj proszę tak fortsett fortsätt jatka tack takk
    devam et evet lütfen tamam tekrar
    да давай дальше далее ещё еще ок пожалуйста попробуй продолжай продолжайте продолжить раз снова спасибо хорошо
    далі продовжуй продовжуйте
    继续 继续吧 继续做 继续执行 继续工作 请继续 好 好的 好吧 可以 行 是 是的 嗯 对 接着 接着做 下一步 再试 再试一次
    重试 谢谢 繼續 請繼續
    続けて 続けてください 続き 続行 続行してください はい お願いします 次 次へ もう一度 ありがとう どうぞ
    계속 계속해 계속해줘 계속해주세요 계속하세요 계속해봐 네 예 응 좋아 좋아요 진행 진행해 진행해줘 다시 다음 감사합니다
    """)
)
"""Words that together only say to go on."""


def prompt_digest(text: str) -> str:
    """Return a digest of a prompt's words, whatever their case and punctuation; empty if it only says to go on."""
    words = _WORD.findall(text.casefold())
    if len(words) <= _MOST_WORDS and GO_ON.issuperset(words):
        return ""
    return blake2b(" ".join(words).encode(errors="replace"), digest_size=8).hexdigest()


def says_something_new(text: str, earlier: Container[str]) -> bool:
    """Return whether a prompt tells the agent what the session's `earlier` ones, by their digests, did not."""
    digest = prompt_digest(text)
    return bool(digest) and digest not in earlier


class Prompts:
    """The prompts of one session, of which only digests are kept."""

    MOST: Final = 256
    """Digests that are kept; the oldest is dropped first."""

    def __init__(self) -> None:
        self.count = 0
        """The first prompt, and those after it that said something new."""
        self._earlier: dict[str, None] = {}

    def stored(self) -> list[str]:
        """Return what `restore` takes in a later process."""
        return [str(self.count), *self._earlier]

    def restore(self, stored: list[str]) -> None:
        """Go on from the prompts of an earlier process."""
        self.count, self._earlier = int(stored[0]), dict.fromkeys(stored[1:])

    def take(self, text: str) -> bool:
        """Count a prompt; return whether it is another one, and says something new."""
        if self.count and not says_something_new(text, self._earlier):
            return False
        self.count += 1
        self._earlier[prompt_digest(text)] = None
        if len(self._earlier) > self.MOST:
            del self._earlier[next(iter(self._earlier))]
        return self.count > 1
