"""Charsets as browsers read them: one text in any charset of its language gives the same tokens."""

import base64
import quopri
import random

import pytest
from webencodings.labels import LABELS

from streamnb import Classifier, MailTokenizer, MultinomialNB
from streamnb.features.grams import WordPairs
from streamnb.mail import Limits, parse
from streamnb.mail.charsets import _codec, decode_part, decode_text, is_informative
from streamnb.mail.decode import decode_words
from streamnb.mailbox.digest import digest

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
def test_messages_of_one_charset_classify_those_of_another(language):
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
def test_long_utf8_is_decoded_with_any_label(label):
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
def test_a_page_of_html_declares_its_charset(language):
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
        assert f": {word.lower()}" in WordPairs().transform_one(raw) or not word.islower(), label
        assert decode_words(word.encode(), label) == word


def test_byte_order_marks_decide():
    for mark_codec in ("utf-8-sig", "utf-16"):
        for label in ("", "iso-8859-1", "utf-8", "koi8-r"):
            assert decode_part("häß".encode(mark_codec), label) == "häß"


# Label as real mail spells it; Python's codec; a text.
MISSPELT = [
    *((label, "cp1251", "Привет деньги") for label in (
        "win-1251", "windows1251", "cp-1251", "ms-1251", "ansi-1251", "windows-1251//IGNORE",
        "=3Dwindows-1251", "3Dwindows-1251", "cp1251_general_ci", "x-cp1251-windows",
    )),
    *((label, "koi8-r", "Привет деньги") for label in ("koi8r", "KOI-8-R", "'koi8-r'", "koi8-r;")),
    *((label, "iso8859-5", "Привет деньги") for label in ("ISO 8859-5", "8859-5", "iso-8859-5:1988")),
    *((label, "cp866", "Привет деньги") for label in ("ibm-866", "dos-866", "cp-866")),
    *((label, "gb18030", "这是发票优惠") for label in (
        "gb18030-0", "gbk2312", "gb-2312", "gb 2312", "GB2312_CHARSET", "windows-936", "euc-cn",
        "x-euc-cn", "cn-gb", "zh_CN.GBK", "gb2312//TRANSLIT",
    )),
    *((label, "big5", "這是垃圾郵件") for label in ("big5-eten", "windows-950", "big-5", "ChineseBig5")),
    *((label, "cp949", "똠방각하 안녕") for label in (
        "ksc-5601", "ks_c_5601-1992", "x-windows-949", "5601", "ms-949",
    )),
    *((label, "cp932", "①日本語無料") for label in ("windows-932", "cp943c", "x-ms-cp932", "S-JIS")),
    *((label, "euc_jp", "日本語無料") for label in ("eucjp-ms", "eucJP-win", "cp51932", "EUC_JP")),
    *((label, "cp874", "สวัสดี เงิน") for label in ("cp874", "windows874", "tis-620-2533")),
    ("x-unicode-2-0-utf-7", "utf-7", "für alle"),
    ("cp65001", "utf-8", "für alle"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "codec", "text"), MISSPELT)
def test_labels_are_known_in_any_spelling(label, codec, text):
    assert decode_text(text.encode(codec), label) == text


ESCAPED = [
    (b'\x1b$B-!-"F|K\\\x1b(B end', "①②日本 end"),  # NEC's row 13
    (b"\x1b$B|b|n\x1b(B end", "髙黑 end"),  # IBM's rows
    (b"\x1b(I5]W2]\x1b(B end", "ｵﾝﾗｲﾝ end"),
    (b"\x0e5]W2]\x0f end", "ｵﾝﾗｲﾝ end"),
    (b"\x1b$BF|K\\\nend", "日本\nend"),  # the line ends without a return to ASCII
    (b"\x1b$B F|K\\ \x1b(J end", " 日本  end"),
    (b"\x1b$(D\x30\x21\x1b(B end", "丂 end"),
]


@pytest.mark.parametrize(
    "label", ["iso-2022-jp", "csISO2022JP", "iso-2022-jp-2", "cp50220", "utf-8", "us-ascii", ""]
)
@pytest.mark.parametrize(("data", "text"), ESCAPED)
def test_japanese_has_the_characters_of_all_makers(data, text, label):
    if b"\x1b$" in data or label.startswith(("iso", "cs", "cp")):
        assert decode_text(data, label) == text


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("iso-2022-kr", b"\x1b$)C\x0e0!3*\x0f end", "가나 end"),
        ("", b"\x1b$)C\x0e0!3*\x0f end", "가나 end"),
        ("iso-2022-cn", b"\x1b$)A\x0e=;;;\x0f end", "交换 end"),
        ("hz-gb-2312", b"This ~{<:Ky2;S{~} end", "This 己所不欲 end"),
        ("", b"This ~{<:Ky2;S{~} end", "This 己所不欲 end"),
        ("us-ascii", b'(format t "~{~a ~}~{foo bar~}")', '(format t "~{~a ~}~{foo bar~}")'),
    ],
)
def test_other_charsets_with_escapes_are_read(label, data, text):
    assert decode_text(data, label) == text


@pytest.mark.parametrize("label", ["iso-2022-jp", "shift_jis", "euc-jp"])
@pytest.mark.parametrize("codec", ["cp932", "euc_jp", "iso2022_jp", "utf-8"])
def test_labels_of_japanese_may_be_those_of_another_charset(label, codec):
    text = "これは日本語の無料のお知らせです"
    assert decode_text(text.encode(codec), label) == text


@pytest.mark.parametrize("label", ["utf-16", "utf-16le", "utf-16be", "ucs-2", "unicode"])
@pytest.mark.parametrize("codec", ["utf-8", "ascii", "utf-16-le", "utf-16-be", "utf-16"])
def test_utf16_is_detected_in_spite_of_its_label(label, codec):
    text = "Free money for all" if codec == "ascii" else "für alle, für immer"
    assert decode_text(text.encode(codec), label) == text


UNDECLARED = {
    "cp1251": "Здравствуйте! Предлагаем вам выгодный кредит без справок и поручителей.",
    "koi8-r": "Здравствуйте! Предлагаем вам выгодный кредит без справок и поручителей.",
    "cp866": "Здравствуйте! Предлагаем вам выгодный кредит без справок и поручителей.",
    "gb18030": "我们公司可以为你们开发票，有需要的人请来电话，这是最好的机会，大家都在用。",
    "big5": "我們公司可以為你們開發票，有需要的人請來電話，這是最好的機會，大家都在用。",
    "cp949": "안녕하세요 고객님, 지금 바로 이 기회를 잡으시고 무료로 상담을 받아 보세요.",
    "cp932": "これはとてもよい機会ですから、いますぐこちらのページをごらんください。",
    "euc_jp": "これはとてもよい機会ですから、いますぐこちらのページをごらんください。",
    "cp1253": "Αγαπητέ πελάτη, μπορείτε να κερδίσετε ένα μεγάλο δώρο σήμερα.",
    "cp1255": "שלום לכולם, יש לנו הצעה מיוחדת עבורכם, אל תחמיצו את ההזדמנות הזאת.",
    "cp1256": "السلام عليكم ورحمة الله، لدينا عرض خاص لكم اليوم، لا تفوتوا هذه الفرصة.",
    "cp874": "สวัสดีครับ เรามีข้อเสนอพิเศษสำหรับคุณในวันนี้ อย่าพลาดโอกาสนี้นะครับ",
    "cp1252": "Où êtes-vous allés cet été, à la mer ou à la forêt ? Größe und Straße.",
}


@pytest.mark.parametrize("label", ["", "us-ascii", "x-unknown", "unknown-8bit", "utf-8"])
@pytest.mark.parametrize("codec", UNDECLARED)
def test_text_without_a_true_label_is_read_by_its_characters(codec, label):
    text = UNDECLARED[codec]
    charset = b"; charset=" + label.encode() if label else b""
    mail = parse(
        b"Subject: %b\nContent-Type: text/plain%b\n\n%b\n"
        % (text[:12].encode(codec), charset, text.encode(codec))
    )
    assert mail.text == text + "\n"
    if label != "utf-8":  # a label that is wrong for the body is used for the subject
        assert mail.get("subject").strip() == text[:12].strip()


SHORT = {
    "cp932": [
        "会議の件",
        "明日の予定について",
        "無料のお知らせ",
        "オンライン カジノ",
        "Re: 請求書",
    ],
    "euc_jp": ["会議の件です", "明日の予定について", "無料のお知らせ", "オンライン カジノ"],
    "big5": ["會議通知", "明天的時間", "免費廣告信", "公司開發票 2024", "[廣告] 貸款"],
    "cp949": ["회의 일정", "무료 상담", "내일 저녁 약속", "(광고) 대출"],
    "gb18030": ["会议通知", "公司开发票", "明天的时间 2024", "代开增值税发票"],
    "cp1255": ["פגישה מחר בבוקר", "הצעה מיוחדת בשבילך", "הנחה על תרופות", "שלום", "תודה", "בית"],
    "cp1251": ["Привет!", "Встреча завтра", "СРОЧНО: кредит", "Мир", "Банк"],
    "koi8-r": ["Привет!", "Встреча завтра", "СРОЧНО: кредит", "Мир", "Банк"],
    "koi8-u": ["Чавінь", "лібідо"],
    "cp1253": ["Καλημέρα", "Δωρεάν δώρο", "Όχι", "Γεια"],
    "cp1256": ["عرض", "هدية"],
    "cp1252": ["déjà vu", "“quoted”", "« à »", "Größe: ÄÖÜ", "più è già", "AÇÃO E NÃO"],
}


@pytest.mark.parametrize("codec", SHORT)
def test_short_texts_without_a_label_are_read_by_their_characters(codec):
    for text in SHORT[codec]:
        assert decode_text(text.encode(codec)) == text
        page = text.encode(codec) + b" Dear all, please find the report. http://a.example/x~y" * 9
        assert decode_text(page).startswith(text)


def test_latin_texts_in_other_charsets_are_no_other_script():
    for text in (
        "Zażółć gęślą jaźń",
        "Příliš žluťoučký kůň",
        "číslo částí",
        "Árvíztűrő tükörfúrógép",
        "«\u00a0%s\u00a0» : nom inconnu",
        "vers «\u00a0%s\u00a0»\u00a0: %s",
    ):
        for codec in ("cp1250", "iso8859-2", "mac-roman"):
            data = text.encode(codec, "replace")
            assert decode_text(data) == data.decode("cp1252", "replace")


@pytest.mark.parametrize("label", ["", "utf-8", "us-ascii", "iso-8859-1"])
@pytest.mark.parametrize("text", ["café, où", "Привет", "会議"])
def test_utf8_can_end_within_a_character(text, label):
    for cut in ("é".encode()[:1], "会".encode()[:2], "😀".encode()[:3]):
        assert decode_text(text.encode() + cut, label) == text + "\ufffd"
    assert decode_text(b"caf\xe9", label if label != "utf-8" else "") == "caf\xe9"


@pytest.mark.parametrize("declaration", [
    b"<meta charset=gb2312>",
    b"<meta http-equiv=Content-Type content='text/html; charset=gb2312'>",
    b"<?xml version='1.0' encoding='gb2312'?>",
    b"<style>" + b".a{color:red}" * 300 + b"</style><meta charset=gb2312>",
])  # fmt: skip
@pytest.mark.parametrize("label", [b"", b"; charset=us-ascii", b"; charset=x-unknown"])
def test_pages_declare_the_charset_of_all_text_without_a_true_label(declaration, label):
    text = "发票优惠"
    mail = parse(
        b"Subject: %b\nContent-Type: text/html%b\n\n%b%b"
        % (text.encode("gbk"), label, declaration, text.encode("gbk"))
    )
    assert mail.get("subject") == text
    assert text in mail.text


@pytest.mark.parametrize("label", ["utf-8", "UTF8", "utf-8//IGNORE"])
@pytest.mark.parametrize("damage", [b"\xc3 ...", b"\xff", b"\n-- \nGr\xfc\xdfe"])
def test_damaged_utf8_with_its_label_stays_utf8(label, damage):
    text = "für alle, schön"
    mail = parse(
        b"Subject: %b\nContent-Type: text/plain; charset=%b\n\n%b"
        % (text.encode() + damage[:1].replace(b"\n", b""), label.encode(), text.encode() + damage)
    )
    assert mail.text.startswith(text)
    assert mail.get("subject").startswith(text)


WORDS_IN_KOI8 = b"=?koi8-r?B?" + base64.b64encode("Привет".encode("koi8-r")) + b"?="


@pytest.mark.parametrize("encoding", ["8bit", "base64", "quoted-printable"])
@pytest.mark.parametrize("header", [
    b"Subject: " + WORDS_IN_KOI8,
    b"From: =?us-ascii?q?x?= <a@b.example>\nSubject: " + WORDS_IN_KOI8,
    b"From: =?unknown-8bit?q?x?= <a@b.example>\nSubject: " + WORDS_IN_KOI8,
    b"Subject: =?us-ascii?q?x?= " + WORDS_IN_KOI8,
])  # fmt: skip
def test_encoded_words_declare_the_charset_of_undeclared_text(header, encoding):
    body = "Привет".encode("koi8-r")
    if encoding != "8bit":
        body = (base64.b64encode if encoding == "base64" else quopri.encodestring)(body)
    mail = parse(header + b"\nContent-Transfer-Encoding: %b\n\n%b" % (encoding.encode(), body))
    assert (mail.text.strip(), mail.charset) == ("Привет", "koi8-r")


def test_ascii_declared_by_a_page_hides_no_other_charset():
    page = b"<meta charset=us-ascii><p>" + "Привет".encode("koi8-r")
    mail = parse(b"Subject: %b\nContent-Type: text/html\n\n%b" % (WORDS_IN_KOI8, page))
    assert "Привет" in mail.text


@pytest.mark.parametrize(
    "words", [["Grü", "ße"], ["Grü", "Grü"], ["é", "é", "é"], ["a", "bc", "def"]]
)
def test_words_of_base64_without_padding_are_read_each(words):
    value = b" ".join(
        b"=?utf-8?b?" + base64.b64encode(word.encode()).rstrip(b"=") + b"?=" for word in words
    )
    assert decode_words(value) == "".join(words)
    assert decode_words(value.removesuffix(b"?=") + b"===?=") == "".join(words)


@pytest.mark.parametrize("text", ["Hi 12", "Grüße", "a", "ab", "abc"])
def test_base64_may_be_split_between_any_two_letters(text):
    letters = base64.b64encode(text.encode())
    for cut in range(1, len(letters)):
        value = b"=?utf-8?b?%b?= =?utf-8?b?%b?=" % (letters[:cut], letters[cut:])
        assert decode_words(value) == text


CAPITALS = {
    "Russian": ("ВНИМАНИЕ! СРОЧНО КУПИТЕ КВАРТИРУ", ["cp1251", "koi8-r", "cp866", "iso8859-5"]),
    "Ukrainian": ("УВАГА! ТЕРМІНОВО КУПІТЬ НОВИЙ ТОВАР ЗІ ЗНИЖКОЮ", ["cp1251"]),
    "Greek": ("ΠΡΟΣΟΧΗ! ΚΕΡΔΙΣΤΕ ΕΝΑ ΜΕΓΑΛΟ ΔΩΡΟ ΣΗΜΕΡΑ", ["cp1253"]),
}


@pytest.mark.parametrize("change", [str.upper, str.title, str.capitalize, str.lower])
@pytest.mark.parametrize("language", CAPITALS)
def test_capitals_are_not_read_as_small_letters_of_another_charset(language, change):
    text, codecs = CAPITALS[language]
    for codec in codecs:
        for variant in (change(text), f"{text} {text.lower()}"):
            assert decode_text(variant.encode(codec)) == variant, codec


@pytest.mark.parametrize("label", ["us", "en-us", "646", "US-ASCII", "ascii", "ANSI_X3.4-1968"])
def test_the_label_ascii_is_ignored_for_other_text(label):
    assert decode_text(b"caf\xe9", label) == "caf\xe9"
    assert decode_text("Привет".encode("koi8-r"), label, "koi8-r") == "Привет"
    assert not is_informative(label)


@pytest.mark.parametrize("label", ["iso-2022-jp", "us-ascii", ""])
def test_escapes_of_iso_2022_in_header_fields_are_decoded(label):
    raw, word = b"\x1b$B2q5D\x1b(B", b"=?iso-2022-jp?b?GyRCMnE1RBsoQg==?="
    tokens, keys = [], []
    for text in (raw, word):
        message = b"From: %b <a@b.org>\nSubject: %b 1\n" % (text, text)
        message += b"Content-Disposition: attachment; filename=%b.pdf\n" % text
        message += b"Content-Type: text/plain; charset=%b\n\n%b" % (label.encode(), raw)
        keys.append(digest(message))
        tokens.append({token for token in MailTokenizer().transform_one(message) if "会" in token})
    assert tokens[0] == tokens[1] >= {"subject:会議", "from:会議"}
    assert keys[0] == keys[1]


def test_escapes_of_hz_in_header_fields_are_decoded():
    message = b"Subject: ~{<:Ky2;S{~}\nContent-Disposition: attachment; filename=~{<:Ky~}.pdf\n\nx"
    assert "subject:己所" in MailTokenizer().transform_one(message)
    assert "己" in "".join(WordPairs().transform_one(message))
    assert parse(message).parts[0].filename == "己所.pdf"
