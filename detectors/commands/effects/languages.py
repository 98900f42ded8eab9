"""English translations of words in tool names, labels and orders: an extensible table.

A line is `English | stems`. A stem in Latin letters has no diacritics and matches a whole word; `stem*` matches a
prefix, `*stem*` any part of a word. A stem in another script matches anywhere.

Misses: unlisted languages and words; phrases whose meaning differs from their words.
"""

import unicodedata
from functools import lru_cache

from haltline.schemas import expressions as re
from haltline.schemas.tool_names import FOREIGN_VERBS, IN_OTHER_LETTERS, words

_TABLE = """
delete | *losch* *loesch* vernicht* *zerstor* supprim* effac* detrui* eliminaci* borra* suprimi* destrui* destruya exclua exclusao apaga* cancellazione distrugg* vernietig* wissen skasow* kasuj* zniszcz* slett* smaz* vymaz* zmaz* torl* obris* izbris* silin* 注销 註銷
remove | entfern* enlev* quitar quita remueva rimuov* rimozion* verwijder* odstran* eltavol* bort
empty | leere leeren entleer* vider videz vaci* esvazi* svuot* leegmaken tyhjenn* oprozn* bosalt* 清空 空に 비우
cancel subscription | *kundig* *kuendig* resilier resiliez resiliation opzeg* wypowied* расторг 解約 退会 退訂 退订 해지 탈퇴
cancel | batalkan ακυρω रद्द ยกเลิก בטל stornier* storno annuler annulez cancelar cancele cancelamento anular disdi* disdett* annulla annullare avsluta avslutt* iptal скасув 解除 キャンセル 取消 إلغاء
deactivate | deaktiv* desactiv* desativ* disattiv* deactiver* dezaktyw* inaktiver* отключ деактив вимкн 無効 停用 禁用 비활성 تعطيل
suspend | sperre sperren *sperrung blockier* bloquea* bloquer bloquez sospend* suspender suspendre blocca* blokkeer* zablok* заблок приостан 凍結 封禁 冻结 차단 تعليق
revoke | widerruf* entzieh* revoqu* revocar revoca revogar intrek* cofnac odbierz aterkall* отозв 撤销 吊销 取り消 회수
terminate | beend* rescind* прекрат 終止 终止 종료 إنهاء
reset | zurucksetz* zuruecksetz* reinitialis* restablec* redefinir 初期化 重置 초기화 сброс
format disk | formatier* formater formatear formatar formatta* formateer* 格式化 フォーマット 포맷 форматир
archive | archivier* archivez archivar arquivar archivia* archiveer* zarchiwiz* архивир アーカイブ 归档 보관
overwrite | uberschreib* ueberschreib* ecraser ecrase* sobrescri* sovrascri* overschrij* nadpis* перезапис 上書き 覆盖 覆寫 덮어쓰
restore | wiederherstell* restaur* ripristin* herstel* przywro* aterstall* восстанов відновит 復元 恢复 恢復 복원 복구 استعادة
move | verschieb* deplacer deplace* mover mueve spostare sposta verplaats* przenies* flytta перемест 移動 移动 이동 نقل
stop | anhalt* stoppen arreter arrete* detener detiene parar fermare ferma zatrzym* durdur* останов 停止 중지 إيقاف
close | schliess* *schliessen fermer cerrar fechar encerrar chiudere chiudi sluiten sluit zamknij 关闭 關閉 閉鎖 закры
disable | abschalt* ausschalt* wylacz* выключ
transfer money | uberweis* ueberweis* virement virer bonifico overboek* overmaken przelew* przelej havale 送金 振込 转账 轉帳 汇款 송금 이체
transfer | transferi* trasferi* transferer ubertrag* uebertrag* перевод перевест перевед تحويل
pay | bayar* שלם πληρω भुगतान ชำระ จ่าย *bezahl* zahle zahlen *zahlung* payez payer paiement* pagar pague paga pagamento* pago betaal* betal* zaplac* zaplat* оплат заплат 支払 決済 付款 支付 결제 지불 دفع
refund | erstatt* ruckerstatt* rueckerstatt* rembours* reembols* rimbors* terugbeta* zwrot zwroc aterbetal* возврат 返金 退款 환불 استرداد
buy | beli membeli αγορ खरीद קנה kaufe kaufen einkauf* acheter achete* achat comprar compra compre acquist* koop kopen kup kupic kop kob kjop osta купи 購入 购买 購買 구매 구입 شراء ซื้อ
sell | verkauf* vendre vendez vender vendere vendi verkoop* sprzeda* salja продат 売却 出售 卖出 매도 판매
order | commande commandes pedido pedidos ordre ordine ordini zlecen* 订单 訂單 주문서 bestell* zahlungspflichtig commander commandez pedir encargar encomend* ordina ordinare zamow* zamaw* bestall* bestill* заказа 注文 下单 下單 订购 주문 طلب
book reservation | buchen buche *buchung reserver reservez reservar reserva prenot* boek boeken zarezerw* boka забронир 予約 预订 預訂 예약 حجز
send | kirim* שלח αποστολ στειλε भेज ส่ง senden sende schick* versend* verschick* absend* envoyer envoyez envoie enviar envie envia invia inviare invio verstuur* verzend* wyslij wyslac skicka gonder* отправ надісл 送信 发送 發送 보내 전송 إرسال
email | eposta* epost courriel* correo* 邮件 郵件 メール 이메일 메일 письмо почт
newsletter | rundmail* rundschreiben* boletin* infolettre* рассылк
publish | veroffentlich* veroeffentlich* publier publiez publicar publique pubblica* publiceren publicera opublik* publikuj yayinla* опублик 公開する 公開 投稿 发布 發布 發佈 게시 نشر
article | artikel* articulo* artigo* articolo* artykul* beitrag* beitraege* статью статья 記事 文章 글을
website | webseite* seite sitio pagina strona сайт サイト 网站
share | freigeb* freigab* teilen partager partagez compartir compartil* condivid* delen udostepn* поделит 共有 共享 分享 공유 مشاركة
grant | erteil* gewahr* gewaehr* vergeben zuweis* accorder accordez attribuer otorg* conceder concede* verleen* toekennen nadaj przyzn* предостав выдать 付与 授予 授权 부여 منح
make | rendre hacer tornar maken rendere
approve | genehmig* approuv* aprobar aprovar approva goedkeur* zatwierdz* одобр 承認 批准 승인
deploy | ausroll* ausliefer* deployer desplegar implantar wdroz* развер デプロイ 部署 배포
confirm | bestatig* bestaetig* confirmer confirmez confirmar confirma conferma confermare bevestig* potwierd* onayla подтверд 確認 确认 확인 تأكيد
all | semua alle alles tous toutes todas tutti tutte allemaal wszystk* все всем всех 全て すべて 全員 全部 所有 모두 모든 전체
everyone | jeder jeden cualquiera
public | offentlich* oeffentlich* publico publiek
customers | kunde kunden cliente klant klient clientes klanten klientow клиент 顧客 客户 客戶 고객
user | pengguna *benutzer* nutzer* utilisateur* usuari* utente utenti gebruiker* uzytkown* anvandar* kullanici* пользовател ユーザ 用户 用戶 사용자
account | akun konto konten *konto compte comptes cuenta* conta contas rekening* hesab* аккаунт учётн учетн アカウント 口座 账户 账号 帳號 帳戶 계정 계좌
subscription | abo abonnement* suscripci* assinatura* abbonament* subskrypcj* prenumerat* abonelik подписк サブスク 定期購読 订阅 訂閱 구독
contract | *vertrag* *vertraeg* contrat* contratt* umowa umowe договор 契約 合同 계약
money | geld betrag argent dinero dinheiro denaro pieniadze деньг 金額 资金 款项
invoice | *rechnung* facture* factura* fatura* fattura* factuur* faktur* 請求書 发票 發票 청구서
permission | *berechtigung* *zugriff* *rechte zugang* droits acces permiso* acceso* permissao permissoes acesso* permess* accesso toegang* uprawnien* dostep* доступ 権限 アクセス 权限 權限 권한
role | rolle rollen rol rollen роль
admin | administrateur* administrador* amministrator* beheerder администратор 管理者 管理员 관리자
backup | sicherung* *sicherungskopie* sauvegarde* respaldo* copia reservekopie yedek* резервн バックアップ 备份 備份 백업
database | *datenbank* donnees datos dados dati 数据库 資料庫 データベース 데이터베이스 базу базы
table | tabelle* tabla tablas tabela tabelas tabella tabel taulu tablo テーブル таблиц
card | tarjeta* cartao* karte* carte carta kaart* karta* カード 卡
file | datei* fichier* archivo archivos arquivo arquivos bestand* plik pliki 文件 檔案 ファイル файл
folder | ordner verzeichnis* dossier carpeta pasta cartella フォルダ 文件夹 папк
queue | warteschlange* fila cola
server | serveur* servidor* сервер サーバ 服务器 서버
project | projekt* projet* proyecto* projeto* progett* проект プロジェクト 项目 專案 프로젝트
key | *schlussel* *schluessel* clave* chave* chiave* sleutel* klucz* ключ 密钥 金鑰
production | produktion* produccion producao produzione produkcj* 本番 生产环境
trash | papierkorb corbeille papelera lixeira cestino prullenbak* papperskorg* kosz корзин ゴミ箱 回收站 휴지통
draft | entwurf* entwuerf* brouillon* borrador* rascunho* bozz* szkic* utkast* черновик 下書き 草稿 초안
cart | warenkorb* panier* carrito* carrinho* carrello* winkelwagen* koszyk* varukorg* カート 购物车 購物車 장바구니
destination | ziel* destino* destinazione doel 目标 目的地
source | quelle* origen origem origine bron 来源
path | pfad* chemin ruta caminho percorso sciezk* путь 路径 路徑 パス
undo | ruckgang* rueckgang* deshacer deshaz desfazer ongedaan angra отмен 元に戻 되돌리
not | nicht keine nao niet
get | abruf* holen lesen *anzeig* zeig* auflist* suche* *prufe* *pruefe* lire lister afficher chercher recherche* consulter obtenir voir verifier leer listar buscar mostrar consultar obtener ler exibir obter leggi leggere elenca* cerca mostra visualizza* lees toon zoek* haal pokaz* wyszuk* odczyt* pobierz sprawdz* visa hamta* listele* goster* показ спис получ найти поиск прочит посмотр 表示 一覧 取得 検索 参照 読み 列表 查询 查詢 查看 搜索 获取 读取 목록 조회 검색 보기 읽기 عرض بحث قراءة
"""


def _read() -> tuple[dict[str, str], dict[str, str], re.Pattern[str], re.Pattern[str]]:
    """Return the whole words and the stems with their English words, and patterns of Latin and other stems."""
    whole = dict.fromkeys(FOREIGN_VERBS, "delete")
    parts: dict[str, str] = {}
    others = dict.fromkeys(IN_OTHER_LETTERS, "delete")
    for line in filter(None, _TABLE.splitlines()):
        english, stems = (cell.strip() for cell in line.split(" | "))
        for stem in stems.split():
            (parts if "*" in stem else whole if stem.isascii() else others)[stem] = english
    longest = sorted(parts, key=len, reverse=True)
    latin = "|".join(
        stem.strip("*") if stem[-1] == "*" else f"{stem.strip('*')}$" for stem in longest if stem[0] != "*"
    )
    within = "|".join(stem.strip("*") + ("" if stem[-1] == "*" else "$") for stem in longest if stem[0] == "*")
    return (
        whole,
        {stem.strip("*"): english for stem, english in parts.items()} | others,
        re.compile(rf"\A(?:{latin}|.*?(?P<within>{within}))"),
        re.compile("|".join(map(re.escape, sorted(others, key=len, reverse=True)))),
    )


_WHOLE, _ENGLISH, _STEMS, _OTHERS = _read()
_MAX_CHARS = 512


@lru_cache(maxsize=4096)
def in_english(name: str) -> tuple[str, ...]:
    """Return the words of a name or label with foreign words in English; empty if there are no foreign words."""
    name = name[:_MAX_CHARS]
    found = (
        [] if name.isascii() else [_ENGLISH[one] for one in _OTHERS.findall(unicodedata.normalize("NFC", name).lower())]
    )
    foreign = bool(found)
    for word in words(name):
        if not word.isascii():
            continue
        stem = _STEMS.match(word)
        english = _WHOLE.get(word) or (_ENGLISH[stem["within"] or stem[0]] if stem is not None else "")
        foreign = foreign or bool(english)
        found.append(english or word)
    return tuple("all" if word == "todos" else word for word in " ".join(found).split()) if foreign else ()
