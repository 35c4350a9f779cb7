"""Charsets as browsers read them: one text in any charset of its language gives the same tokens."""

import base64
import random

import pytest
from webencodings.labels import LABELS

from streamnb import Classifier, MailTokenizer, MultinomialNB
from streamnb.mail import Limits, parse
from streamnb.mail.decode import _codec, decode_part, decode_text, decode_words

# Language: words of ham; words of spam; (label, Python's codec) pairs.
LANGUAGES = {
    "Russian": (
        "встреча завтра отчёт проект обед спасибо вопрос письмо деньги погода",
        "выигрыш миллион бесплатно срочно кредит казино скидка подарок лекарство купите",
        [("koi8-r", "koi8-r"), ("windows-1251", "cp1251"), ("iso-8859-5", "iso8859-5"),
         ("x-mac-cyrillic", "mac-cyrillic"), ("ibm866", "cp866"), ("utf-8", "utf-8")],
    ),
    "Ukrainian": (
        "зустріч завтра звіт їжа дякую питання ґанок лист робота сім'я",
        "виграш мільйон безкоштовно терміново кредит знижка подарунок ліки купіть їхати",
        [("koi8-u", "koi8-u"), ("windows-1251", "cp1251"), ("utf-8", "utf-8")],
    ),
    "German": (
        "Besprechung morgen Grüße Straße später für können Büro müssen Bericht",
        "Gewinn Million gratis günstig Kredit Rabatt Geschenk größer kaufen ändern",
        [("iso-8859-1", "latin-1"), ("windows-1252", "cp1252"), ("iso-8859-15", "iso8859-15"),
         ("us-ascii", "cp1252"), ("utf-8", "utf-8"), ("iso-8859-1", "utf-8"), ("utf8", "utf-8")],
    ),
    "Polish": (
        "spotkanie jutro dziękuję pytanie książka źródło żaden późno ćwiczenie łąka",
        "wygrana milion bezpłatnie kredyt zniżka prezent większy kupuj święta ślub",
        [("iso-8859-2", "iso8859-2"), ("windows-1250", "cp1250"), ("utf-8", "utf-8")],
    ),
    "Turkish": (
        "toplantı yarın teşekkürler soru öğle görüşmek için çalışma ağaç ışık",
        "kazanç milyon ücretsiz acil kredi indirim hediye büyük satın şans",
        [("iso-8859-9", "iso8859-9"), ("windows-1254", "cp1254"), ("utf-8", "utf-8")],
    ),
    "Greek": (
        "συνάντηση αύριο έκθεση ευχαριστώ ερώτηση γραφείο δουλειά καιρός σπίτι βιβλίο",
        "κέρδος εκατομμύριο δωρεάν επείγον δάνειο έκπτωση δώρο αγοράστε τύχη φάρμακο",
        [("iso-8859-7", "iso8859-7"), ("windows-1253", "cp1253"), ("utf-8", "utf-8")],
    ),
    "Hebrew": (
        "פגישה מחר דוח תודה שאלה מכתב עבודה משפחה בית ספר",
        "זכייה מיליון חינם דחוף הלוואה הנחה מתנה לקנות מזל תרופה",
        [("iso-8859-8-i", "iso8859-8"), ("windows-1255", "cp1255"), ("utf-8", "utf-8")],
    ),
    "Arabic": (
        "اجتماع غدا تقرير شكرا سؤال رسالة عمل عائلة بيت كتاب",
        "ربح مليون مجانا عاجل قرض خصم هدية شراء حظ دواء",
        [("iso-8859-6", "iso8859-6"), ("windows-1256", "cp1256"), ("utf-8", "utf-8")],
    ),
    "Thai": (
        "ประชุม พรุ่งนี้ รายงาน ขอบคุณ คำถาม จดหมาย งาน ครอบครัว บ้าน หนังสือ",
        "รางวัล ล้าน ฟรี ด่วน เงินกู้ ส่วนลด ของขวัญ ซื้อ โชค ยา",
        [("tis-620", "tis-620"), ("windows-874", "cp874"), ("iso-8859-11", "cp874"), ("utf-8", "utf-8")],
    ),
    "Japanese": (
        "会議 明日 報告 感謝 質問 手紙 仕事 家族 図書館 電車",
        "当選 百万円 無料 緊急 融資 割引 贈物 購入 幸運 薬局",
        [("iso-2022-jp", "iso2022-jp"), ("shift_jis", "cp932"), ("x-sjis", "cp932"),
         ("euc-jp", "euc-jp"), ("windows-31j", "cp932"), ("utf-8", "utf-8")],
    ),
    "Korean": (
        "회의 내일 보고서 감사 질문 편지 업무 가족 도서관 기차",
        "당첨 백만원 무료 긴급 대출 할인 선물 구매 행운 똠방각하",
        [("euc-kr", "cp949"), ("ks_c_5601-1987", "cp949"), ("utf-8", "utf-8")],
    ),
    "Chinese, simplified": (
        "会议 明天 报告 谢谢 问题 邮件 工作 家庭 图书馆 火车",
        "中奖 百万 免费 紧急 贷款 折扣 礼物 购买 幸运 朱镕基",
        [("gb2312", "gb18030"), ("x-gbk", "gbk"), ("gb18030", "gb18030"), ("utf-8", "utf-8")],
    ),
    "Chinese, traditional": (
        "會議 明天 報告 謝謝 問題 郵件 工作 家庭 圖書館 火車",
        "中獎 百萬 免費 緊急 貸款 折扣 禮物 購買 幸運 藥局",
        [("big5", "big5"), ("big5-hkscs", "big5hkscs"), ("utf-8", "utf-8")],
    ),
    "Latvian": (
        "sapulce rītdien pārskats paldies jautājums vēstule ģimene māja grāmata šķiņķis",
        "laimests miljons bezmaksas steidzami kredīts atlaide dāvana pērciet žūrija zāles",
        [("windows-1257", "cp1257"), ("iso-8859-13", "iso8859-13"), ("utf-8", "utf-8")],
    ),
}  # fmt: skip


def mails(language, label, codec):
    """20 messages of ham and 20 of spam, with the label of each."""
    rng = random.Random(language)
    for number in range(40):
        words = LANGUAGES[language][number % 2].split()
        text = " ".join(rng.choices(words, k=12))
        subject = rng.choice(words)
        body = base64.encodebytes(text.encode(codec)).decode()
        encoded = base64.b64encode(subject.encode(codec)).decode()
        yield (
            (
                f"Subject: =?{label}?b?{encoded}?=\nContent-Type: text/plain; charset={label}\n"
                f"Content-Transfer-Encoding: base64\n\n{body}\n"
            ).encode(),
            ("ham", "spam")[number % 2],
        )


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_taught_in_one_charset_is_told_apart_in_every_other(language):
    tokenizer = MailTokenizer(drop_headers=("Content-Type",))
    charsets = LANGUAGES[language][2]
    for charset in charsets:
        model = Classifier(tokenizer, MultinomialNB())
        for message, label in mails(language, *charset):
            model.learn_one(message, label)
        expected = [tokenizer.transform_one(message) for message, _ in mails(language, *charset)]
        for other in charsets:
            for (message, label), tokens in zip(mails(language, *other), expected, strict=True):
                assert tokenizer.transform_one(message) == tokens, (charset, other)
                assert model.predict_one(message) == label, (charset, other)


@pytest.mark.parametrize(
    "label", ["euc-kr", "gb2312", "big5", "shift_jis", "euc-jp", "iso-8859-1", "koi8-r"]
)
def test_long_utf8_is_read_as_such_whatever_the_label(label):
    text = LANGUAGES["Korean"][0] + LANGUAGES["Chinese, simplified"][1]
    assert decode_text(text.encode(), label) == text


def test_every_label_of_the_standard_is_known():
    unknown = {label for label in LABELS if _codec(label) is None}
    assert unknown == {"iso-2022-cn", "iso-2022-cn-ext", "replacement"}  # Python has no codec


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("damage", [b"\xff", b"\x80", b"\xf5"])
def test_a_damaged_byte_costs_a_character_only(language, damage):
    text = LANGUAGES[language][0]
    for label, codec in LANGUAGES[language][2]:
        if codec in ("iso2022-jp", "mac-cyrillic") or (label == "euc-kr" and codec == "utf-8"):
            continue
        raw = text.encode(codec)
        middle = raw.index(b" ", len(raw) // 2)
        decoded = decode_text(raw[:middle] + b" " + damage + raw[middle:], label)
        words = text.split()
        assert len(set(words) - set(decoded.split())) <= 1, (label, decoded)


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_is_cut_between_characters(language):
    text = LANGUAGES[language][0].replace(" ", "")
    raw = b"Content-Type: text/plain; charset=utf-8\n\n" + (text * 20).encode()
    for size in range(300, 320):
        mail = parse(raw, Limits(size=size))
        assert "\ufffd" not in mail.text
        assert mail.text
        assert (text * 20).startswith(mail.text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_html_says_its_charset(language):
    text = LANGUAGES[language][0]
    for label, codec in LANGUAGES[language][2]:
        if label in ("iso-8859-1", "us-ascii", "euc-kr") or codec == "iso2022-jp":
            continue
        for meta in (
            f"<META charset='{label}'>",
            f'<meta http-equiv="x" content="text/html; charset={label}">',
        ):
            raw = meta.encode() + text.encode(codec)
            assert decode_part(raw, is_html=True) == meta + text
            assert decode_part(raw, "no-such", is_html=True) == meta + text


@pytest.mark.parametrize("language", LANGUAGES)
def test_raw_header_fields_are_in_utf8_or_the_charset_of_the_body(language):
    word = LANGUAGES[language][1].split()[0]
    for label, codec in LANGUAGES[language][2]:
        if codec == "iso2022-jp":
            continue
        raw = (
            b"Subject: " + word.encode(codec)
            + f"\nContent-Type: text/plain; charset={label}\n\nx\n".encode()
        )  # fmt: skip
        assert parse(raw).get("subject") == word, label
        assert decode_words(word.encode(), label) == word


def test_byte_order_marks_decide():
    for mark_codec in ("utf-8-sig", "utf-16"):
        for label in ("", "iso-8859-1", "utf-8", "koi8-r"):
            assert decode_part("häß".encode(mark_codec), label) == "häß"
