"""Write corpora/sample: 300 invented mails, the same ones each time.

    python corpora/make_sample.py [FOLDER]

Ham and spam share most of their words, spam campaigns begin and end, newsletters sell things and
some spam is short and friendly, so a filter needs the whole stream to get good. The mails are
written byte by byte, with the structures, charsets and mistakes that real mail has.
"""

import argparse
import base64
import binascii
import random
from collections.abc import Callable
from pathlib import Path

SEED = 20260101
MESSAGES = 300

NAMES = """Anna Berg|Tom Okafor|Maria Silva|Jens Holm|Priya Nair|Luc Moreau|Keiko Tanaka|Olga Petrova
Sam Reed|Elif Kaya|Marco Bianchi|Ruth Cohen|Ivan Novak|Grace Mwangi|Peter Lang""".replace(
    "\n", "|"
).split("|")
FIRMS = "northgate harbour-books quartz alder-energy lumen riverside meridian bluefin".split()
THINGS = """report|draft|budget|schedule|invoice|slides|contract|photos|minutes|list of names|test results
recipe|map|tickets|figures|translation|proposal|lesson plan""".replace("\n", "|").split("|")
DAYS = "Monday Tuesday Wednesday Thursday Friday tomorrow tonight next-week".split()
PLACES = (
    "Lisbon|Tromsø|the office|room 4|the library|Zürich|the station|Graz|the school|Porto".split(
        "|"
    )
)

HAM = {
    "work": [
        "Could you look at the {thing} before {day}?", "The {thing} is attached, comments welcome.",
        "We moved the meeting to {day} at {n}:30 in {place}.", "I fixed the build, the tests pass again.",
        "{name} asked whether the {thing} can wait until {day}.", "Please send me the {thing} when you can.",
        "The server was down for {n} minutes; I wrote up what happened.", "Thanks for the quick answer.",
        "Our account with {firm} needs a new contact person.", "I will be out of office on {day}.",
        "Free slots on {day}: {n}:00 or {n}:45.", "The client wants a better price for {n} licences.",
    ],
    "home": [
        "Are you coming to dinner on {day}?", "The children loved {place}.", "I found your {thing} at home.",
        "Happy birthday! We have a small gift for you.", "Mum says hello and asks for the {thing}.",
        "The train to {place} leaves at {n}:15.", "Shall we share the cost of the tickets, {n} each?",
        "Call me when you get in.", "The doctor said it is nothing serious.", "I won {n} games in a row!",
    ],
    "list": [
        "> I think the parser should accept empty lines.", "On {day} {name} wrote:", "+1, and please add a test.",
        "The patch breaks the build on older compilers.", "Released version 0.{n} with {n} bug fixes.",
        "Has anyone tried this on a machine with {n} cores?", "See the archive for the earlier discussion.",
        "To unsubscribe send a mail to list-request.", "I cannot reproduce it here, which version is it?",
    ],
    "news": [
        "This week: {n} new books, one of them free to read online.", "Members save {n}% until {day}.",
        "Your order of {n} items was sent today.", "Read the full story on our site.",
        "You receive this because you subscribed.", "Special offer for readers: two tickets for the price of one.",
        "Your monthly statement is ready.", "Click here to change your settings or unsubscribe.",
    ],
}  # fmt: skip
SPAM = {
    "pills": [
        "Save {n}% on all medication, no prescription needed.", "V1agra and C!alis from {n} dollars.",
        "Your doctor need not know.", "Discreet delivery to your door by {day}.", "Click here to order now.",
        "Thousands of happy customers feel better.", "Limited stock, order before {day}!",
    ],
    "money": [
        "You have won {n} million in our lottery.", "I am the lawyer of a late client who left {n} million.",
        "Please send your account number to receive the money.", "This is a confidential business proposal.",
        "Your loan of {n}000 is approved, no credit check.", "Double your money in {n} days, guaranteed.",
        "Act now, this offer ends {day}.", "Work from home and earn {n}00 a week.",
    ],
    "watch": [
        "Replica watches, best quality, lowest price.", "Look rich for only {n} dollars.",
        "Free shipping on all orders until {day}.", "Designer bags at {n}% off.", "Visit our shop today.",
    ],
    "phish": [
        "Your account has been limited.", "Please confirm your password within {n} hours.",
        "We noticed a new sign-in from {place}.", "Your mailbox is {n}% full.", "Click here to verify your identity.",
        "Your invoice of {n} is attached.", "Failure to act will close your account on {day}.",
    ],
    "parcel": [
        "Your parcel could not be delivered on {day}.", "Pay the fee of {n} to receive it.",
        "Track your order here.", "A driver will call between {n}:00 and {n}:30.", "Your order was sent to {place}.",
    ],
    "coins": [
        "Invest in the coin that everybody talks about.", "Up {n}% since {day}.", "Our robot trades while you sleep.",
        "Only {n} places left in the group.", "Friends of {name} already earn from home.",
    ],
    "friendly": [
        "Hello, how are you?", "Did you get my last mail?", "Are you free for a quick task?", "I am in a meeting.",
        "Please answer soon.", "I found your photos here.", "Call me when you get this.", "Can you buy {n} gift cards?",
    ],
}  # fmt: skip
# Which campaigns run in which part of the stream: the later ones are news to the filter.
SEASONS = [["pills", "money"], ["pills", "money", "watch"], ["watch", "phish", "friendly"],
           ["phish", "coins", "friendly"], ["parcel", "coins", "pills", "friendly"]]  # fmt: skip

FOREIGN = [  # language, charset, encoding, ham sentences, spam sentences
    ("de", "iso-8859-1", "qp",
     ["Können wir das Treffen auf Freitag verschieben?", "Schöne Grüße aus Köln.", "Der Bericht ist angehängt.",
      "Hast du die Prüfung bestanden?", "Bitte prüfe den Entwurf."],
     ["Sie haben gewonnen!", "Günstige Kredite ohne Prüfung.", "Bestätigen Sie Ihr Konto.", "Jetzt zugreifen für 9 €!"]),
    ("fr", "utf-8", "qp",
     ["Le déjeuner est à midi.", "Merci pour ta réponse.", "Voici le compte rendu de la réunion.", "À demain !"],
     ["Vous avez gagné un cadeau.", "Gagnez de l’argent à la maison.", "Votre compte est bloqué, vérifiez-le."]),
    ("es", "windows-1252", "8bit",
     ["¿Vienes mañana a la reunión?", "Te mando las fotos del viaje.", "El niño está mejor."],
     ["¡Felicidades, ganó un premio!", "Compre ahora, oferta única.", "Su contraseña caduca mañana."]),
    ("ru", "koi8-r", "b64",
     ["Встреча переносится на пятницу.", "Спасибо за отчёт.", "Поезд приходит в шесть."],
     ["Вы выиграли миллион.", "Дешёвые лекарства без рецепта.", "Подтвердите пароль."]),
    ("ja", "iso-2022-jp", "7bit",
     ["明日の会議は三時からです。", "写真をありがとう。", "資料を確認してください。"],
     ["当選おめでとうございます。", "今すぐ登録で無料。", "口座番号をお知らせください。"]),
    ("zh", "gb2312", "b64",
     ["会议改到星期五。", "谢谢你的报告。", "请看附件中的计划。"],
     ["恭喜您中奖。", "低价代开发票，请联系。", "点击这里确认您的密码。"]),
    ("th", "utf-8", "b64",
     ["ประชุมเลื่อนไปวันศุกร์", "ขอบคุณสำหรับรูปถ่าย"], ["คุณถูกรางวัล คลิกที่นี่", "เงินกู้ด่วน ไม่ต้องค้ำ"]),
]  # fmt: skip

Body = tuple[list[bytes], bytes]  # header lines about the content, the content


class Writer:
    """One stream of mails, every choice taken from one seeded source."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, choices: list[str]) -> str:
        return choices[int(self.random.random() * len(choices))]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def filled(self, sentence: str) -> str:
        return sentence.format(
            thing=self.pick(THINGS), day=self.pick(DAYS), place=self.pick(PLACES), firm=self.pick(FIRMS),
            name=self.pick(NAMES), n=1 + int(self.random.random() * 95),
        )  # fmt: skip

    def sentences(self, pool: list[str], least: int, most: int) -> list[str]:
        number = least + int(self.random.random() * (most - least + 1))
        return [self.filled(self.pick(pool)) for _ in range(number)]


def encoded(text: str, charset: str, encoding: str) -> tuple[bytes, bytes]:
    """The text in a charset and transfer encoding, and the header line that says so."""
    raw = text.encode(charset, "replace")
    if encoding == "qp":
        return binascii.b2a_qp(raw), b"Content-Transfer-Encoding: quoted-printable"
    if encoding == "b64":
        return base64.encodebytes(raw), b"Content-Transfer-Encoding: base64"
    return raw, f"Content-Transfer-Encoding: {encoding}".encode()


def plain(text: str, charset: str, encoding: str) -> Body:
    payload, line = encoded(text, charset, encoding)
    return [f"Content-Type: text/plain; charset={charset}".encode(), line], payload


def html(writer: Writer, text: str, spam: bool) -> Body:
    words = text.split(" ")
    if spam and writer.chance(0.5):  # cut words that a reader sees whole
        words = [
            f"{w[:2]}<!-- {w[::-1]} -->{w[2:]}" if len(w) > 5 and writer.chance(0.3) else w
            for w in words
        ]
    link = f"http://www.{writer.pick(FIRMS)}.{'example' if not spam or writer.chance(0.3) else 'example.net'}/"
    page = (
        f'<html><body bgcolor="#{"ffffff" if not spam else "ffffcc"}"><p>{" ".join(words)}</p>\n'
        f'<a href="{link}{"go?id=" if spam else "news/"}{int(writer.random.random() * 1000)}">Click&nbsp;here</a>'
        f"<br>&copy; 2026</body></html>\n"
    )
    payload, line = encoded(page, "utf-8", "qp" if writer.chance(0.5) else "8bit")
    return [b'Content-Type: text/html; charset="utf-8"', line], payload


def joined(lines: list[bytes], payload: bytes) -> bytes:
    return b"\n".join(lines) + b"\n\n" + payload


def multipart(kind: str, parts: list[Body], writer: Writer) -> Body:
    boundary = f"=_{int(writer.random.random() * 1e12):012d}".encode()
    out = b"This is a message in several parts.\n"
    for lines, payload in parts:
        out += b"--" + boundary + b"\n" + joined(lines, payload) + b"\n"
    if not writer.chance(0.1):  # some programs forget the last boundary
        out += b"--" + boundary + b"--\n"
    return [f'Content-Type: multipart/{kind};\n\tboundary="{boundary.decode()}"'.encode()], out


def attachment(writer: Writer, spam: bool) -> Body:
    name = (
        f"{writer.pick(THINGS).replace(' ', '-')}.{'exe' if spam and writer.chance(0.4) else 'pdf'}"
    )
    noise = bytes(int(writer.random.random() * 256) for _ in range(150))
    return [
        f'Content-Type: application/octet-stream; name="{name}"'.encode(),
        b"Content-Transfer-Encoding: base64",
        f'Content-Disposition: attachment; filename="{name}"'.encode(),
    ], base64.encodebytes(noise)


def forwarded(writer: Writer, inner: Body) -> Body:
    head = [
        f"From: {writer.pick(NAMES)} <someone@example.org>".encode(),
        b"Subject: Fwd",
        *inner[0],
    ]
    return multipart("mixed", [([b"Content-Type: text/plain"], b"See below.\n"),
                               ([b"Content-Type: message/rfc822"], joined(head, inner[1]))], writer)  # fmt: skip


def encoded_word(text: str, charset: str) -> bytes:
    if text.isascii():
        return text.encode()
    raw = base64.b64encode(text.encode(charset, "replace")).decode()
    return f"=?{charset}?B?{raw}?=".encode()


def structure(writer: Writer, text: str, charset: str, encoding: str, spam: bool) -> Body:
    """Put a text into one of the shapes that mail comes in."""
    shapes: list[tuple[float, Callable[[], Body]]] = [
        (0.40 if not spam else 0.25, lambda: plain(text, charset, encoding)),
        (0.10 if not spam else 0.35, lambda: html(writer, text, spam)),
        (
            0.20,
            lambda: multipart(
                "alternative", [plain(text, charset, encoding), html(writer, text, spam)], writer
            ),
        ),
        (
            0.12,
            lambda: multipart(
                "mixed", [plain(text, charset, encoding), attachment(writer, spam)], writer
            ),
        ),
        (0.05, lambda: forwarded(writer, plain(text, charset, encoding))),
        (1.00, lambda: ([], text.encode(charset, "replace"))),  # nothing declared at all
    ]
    position = writer.random.random()
    for share, make in shapes:
        position -= share
        if position < 0:
            return make()
    return shapes[-1][1]()


def message(writer: Writer, number: int, spam: bool) -> bytes:
    """One mail of the stream."""
    charset, encoding = (
        writer.pick(["us-ascii", "utf-8", "iso-8859-1"]),
        writer.pick(["7bit", "8bit", "qp"]),
    )
    if writer.chance(0.18):
        _, charset, encoding, good, bad = FOREIGN[int(writer.random.random() * len(FOREIGN))]
        pool = bad if spam else good
        topic = "foreign"
    else:
        season = SEASONS[number * len(SEASONS) // MESSAGES]
        topic = writer.pick(season) if spam else writer.pick(list(HAM))
        pool = SPAM[topic] if spam else HAM[topic]
    lines = writer.sentences(pool, 1 if topic == "friendly" else 2, 6)
    if (
        spam and topic not in ("friendly", "foreign") and writer.chance(0.4)
    ):  # padding that looks like ham
        lines += writer.sentences(HAM[writer.pick(list(HAM))], 1, 4)
    subject = lines[0].rstrip(".!?").removeprefix("> ")
    if writer.chance(0.3) and topic != "foreign":
        subject = "Re: " + writer.pick(THINGS)
    name = writer.pick(NAMES)
    domain = writer.pick(FIRMS) + ".example"
    sender = (
        f"{name.split()[0].lower()}{int(writer.random.random() * 90) + 10 if spam else ''}@{domain}"
    )
    content, payload = structure(writer, "\n".join(lines) + "\n", charset, encoding, spam)
    day = 1 + number * 28 // MESSAGES
    head = [
        f"Received: from mail.{domain} (mail.{domain} [192.0.2.{1 + number % 250}])\n\tby mx.example.org; "
        f"{day} Jan 2026".encode(),
        b"From: " + encoded_word(name, "utf-8") + f" <{sender}>".encode(),
        b"To: you@example.org",
        b"Subject: " + encoded_word(subject, charset),
        f"Date: {day:02d} Jan 2026 {number % 24:02d}:{number % 60:02d}:00 +0000".encode(),
        f"Message-ID: <{number}.{int(writer.random.random() * 1e9)}@{domain}>".encode(),
    ]
    if topic == "list":
        head.append(b"List-Id: <dev.lists.example.org>")
    if spam and writer.chance(0.3):
        head.append(b"X-Priority: 1")
    if writer.chance(0.2):  # another filter's opinion, often wrong: nobody should believe it
        head.append(b"X-Spam-Flag: " + (b"YES" if writer.chance(0.5) else b"NO"))
    if content:
        head.append(b"MIME-Version: 1.0")
    mail = joined(head + content, payload)
    return mail.replace(b"\n", b"\r\n") if writer.chance(0.2) else mail


def main(folder: Path) -> None:
    """Write the corpus in TREC layout."""
    writer = Writer(SEED)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    index = []
    for number in range(MESSAGES):
        spam = writer.chance(0.45)
        path = folder / "data" / f"{number:03d}.eml"
        path.write_bytes(message(writer, number, spam))
        index.append(f"{'spam' if spam else 'ham'} data/{path.name}\n")
    (folder / "index").write_text("".join(index), encoding="ascii")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "sample")
    main(parser.parse_args().folder)
