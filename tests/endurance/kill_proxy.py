"""Kill `streamnb serve` repeatedly while mail passes through it, and count the messages that arrive.

    python tests/endurance/kill_proxy.py [KILLS] [before-queue | after-queue | lmtp]

Run it as root, with Postfix and Dovecot installed. It starts both with their own folders.
"""

import random
import re
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.extend(
    str(Path(__file__).parents[1] / name) for name in ("helpers", "service", "watch", "web")
)
from test_mail_server import HAM, SPAM, Site, train

AT_ONCE = 5  # messages between two kills


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    way = sys.argv[2] if len(sys.argv) > 2 else "before-queue"
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "users").mkdir()
        database = folder / ("users/ann.db" if way == "lmtp" else "mail.db")
        train(database, {"spam": SPAM, "ham": HAM})
        site = Site(Path(__file__).parents[2], folder, way)
        sent = retries = 0
        try:
            for _ in range(kills):
                messages = [HAM % (1000 + sent + i) for i in range(AT_ONCE)]
                sent += len(messages)
                with ThreadPoolExecutor(1) as pool:
                    answer = pool.submit(site.send, messages)
                    time.sleep(draw.uniform(0, 0.3))
                    site.kill()
                    site.start()
                    retries += answer.result()
            wanted = {str(1000 + i) for i in range(sent)}
            end = time.monotonic() + 120
            while True:
                texts = site.delivered()
                arrivals = Counter(re.search(rb"lunch (\d+)", text)[1].decode() for text in texts)
                if wanted <= set(arrivals) or time.monotonic() > end:
                    break
                time.sleep(1)
        finally:
            site.close()
    print(f"{way}: {kills} kills, {sent} messages: {len(wanted - set(arrivals))} lost, "
          f"{sum(arrivals.values()) - len(arrivals)} came twice, {retries} times told to try again")  # fmt: skip
    sys.exit(bool(wanted - set(arrivals)))


if __name__ == "__main__":
    main()
