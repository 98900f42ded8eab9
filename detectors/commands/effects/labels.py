"""Texts on what is clicked that cannot be taken back, in several languages: tables to extend.

A word counts where it stands by itself (`delete`), one of a language without blanks wherever it stands (`削除`); a phrase
where its words follow each other. `_NEVER` are words beside which a text means something else.

Misses: icons without a text; what a page asks when it is sent without a click.
"""

import re
import unicodedata
from functools import lru_cache

from haltline.detectors.commands.model import ActEffect

_TABLE = """
destroys | permanently delete erase destroy wipe purge truncate drop uninstall terminate deactivate nuke decommission revoke unpublish
destroys | empty trash, empty bin, empty recycle bin, close account, close my account, remove all, remove everyone, remove user, remove users, remove account, remove project, remove repository, remove database, remove member, remove permanently, clear all data, clear database, factory reset, reset database, reset to factory, format disk, format drive, discard all, archive project, archive repository, cancel subscription, leave organization, disable account, suspend account, shut down, force push, end session for all, i understand
destroys | deletion removal suppression löschung eliminación exclusão eliminazione verwijdering usunięcie
destroys | löschen entfernen vernichten leeren deaktivieren kündigen formatieren zurücksetzen endgültig
destroys | supprimer effacer détruire vider désactiver résilier réinitialiser
destroys | eliminar borrar suprimir destruir vaciar desactivar
destroys | excluir apagar remover deletar esvaziar desativar
destroys | elimina eliminare cancella cancellare distruggi svuota disattiva rimuovi
destroys | verwijder verwijderen wissen vernietigen leegmaken
destroys | usuń skasuj wyczyść zniszcz
destroys | radera slett slet ta bort tøm poista tyhjennä
destroys | smazat odstranit vymazat zmazať odstrániť törlés törlése eltávolítás șterge elimină obriši izbriši избриши
destroys | sil kaldır hapus padam xóa xoá burahin futa
destroys | удалить стереть очистить уничтожить удаление видалити стерти изтриване изтрий
destroys | διαγραφή κατάργηση
spends | buy pay purchase donate
spends | buy now, pay now, place order, place your order, complete purchase, complete order, complete payment, confirm order, confirm payment, confirm purchase, submit order, submit payment, confirm and pay, order now, check out now, book now, confirm booking, transfer money, send money, send payment, start trial, upgrade now, subscribe now, refund order, issue refund, proceed to payment
spends | kaufen bezahlen bestellen zahlungspflichtig überweisen buchen
spends | acheter payer commander comprar pagar acquista ordina betalen koop kup zapłać købe betal osta купить оплатить заказать
sends | publish tweet broadcast
sends | send to all, send to everyone, send all, post publicly, send campaign, send newsletter, send now, go live, deploy to production, submit for review, release to production
sends | veröffentlichen publier publicar pubblica publiceren opublikuj опубликовать
exposes | make public, change visibility, share publicly, anyone with the link, grant access, make admin, make owner, allow all, disable protection, transfer ownership, disable two-factor, turn off 2fa
"""
_WITHOUT_BLANKS = {
    ActEffect.DESTROYS: (
        "削除", "消去", "破棄", "初期化", "解約", "退会", "删除", "刪除", "清空", "移除", "销毁", "抹除", "注销",
        "삭제", "제거", "초기화",
        "탈퇴", "حذف", "مسح", "إزالة", "מחק", "מחיקה", "हटाएं", "हटाएँ", "हटाना", "मिटाएं", "মুছুন", "ลบ", "நீக்கு",
        "ลบทิ้ง",
    ),
    ActEffect.SPENDS: ("購入", "支払", "注文を確定", "购买", "付款", "支付", "下单", "購買", "구매", "결제", "شراء", "دفع", "ซื้อ"),
    ActEffect.SENDS: ("公開する", "发布", "發布", "게시", "نشر"),
}  # fmt: skip
_CONFIRMS = frozenset((
    "confirm", "yes confirm", "confirm action", "yes proceed", "i am sure", "yes i am sure", "bestätigen",
    "confirmer", "confirmar",
    "conferma", "bevestigen", "potwierdź", "подтвердить", "確認", "确认", "확인", "confirm changes", "onayla",
    "تأكيد",
))  # fmt: skip
"""Whole texts that carry out what a page asked for."""
_NEVER = frozenset((
    "undo", "don't", "dont", "not", "never", "how", "help", "learn", "filter", "filters", "search", "undelete",
    "cart", "draft",
    "drafts", "restore", "recover", "history", "documentation", "docs", "faq", "about", "why", "keep",
    "cancel deletion", "read",
    "notification", "notifications", "cookies", "formatting", "selection", "recently", "folder", "guide", "policy",
    "list",
    "rückgängig", "nicht", "annuler la", "deshacer", "filtros", "view", "preview", "wishlist", "bag", "basket",
    "tag", "label",
    "column", "row", "show", "sort", "add", "back", "settings", "menu", "buyer", "tab",
))  # fmt: skip
_BETWEEN = re.compile(r"[^\w'+-]+|[_]|(?<=[a-z])(?=[A-Z])|-")
_MAX_CHARS = 200


def _read() -> tuple[dict[str, ActEffect], tuple[tuple[str, ActEffect], ...]]:
    single: dict[str, ActEffect] = {}
    phrases: list[tuple[str, ActEffect]] = []
    for line in filter(None, _TABLE.splitlines()):
        effect, listed = (cell.strip() for cell in line.split("|"))
        if "," in listed:
            phrases += [(f" {phrase.strip()} ", ActEffect(effect)) for phrase in listed.split(",")]
        else:
            single |= dict.fromkeys(listed.split(), ActEffect(effect))
    return single, tuple(phrases)


WORDS, PHRASES = _read()


@lru_cache(maxsize=2048)
def effect_of(label: str) -> ActEffect | None:
    """What a click on something with this text does; None: nothing that could not be taken back, or nobody knows."""
    text = unicodedata.normalize("NFKC", label[:_MAX_CHARS])
    plain = [word for word in (part.strip("'-").lower() for part in _BETWEEN.split(text)) if word]
    joined = f" {' '.join(plain)} "
    if not _NEVER.isdisjoint(plain):
        return None
    for phrase, effect in PHRASES:
        if phrase in joined:
            return effect
    if joined.strip().removesuffix(" button") in _CONFIRMS:
        return ActEffect.DESTROYS
    for word in plain:
        if word in WORDS:
            return WORDS[word]
    for effect, pieces in _WITHOUT_BLANKS.items():
        if any(piece in text for piece in pieces):
            return effect
    return None
