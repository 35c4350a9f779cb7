#!/usr/bin/env bash
# Let threads share a model under a race detector: tests/endurance/tsan.sh [--minutes 5] [--threads 8]
#
# Builds the compiled module with the thread sanitizer (gcc), in a separate environment (.tsan in this
# project). Python itself is built without it, so races of the interpreter are not detected. Races in
# the compiled module that the interpreter's lock does not prevent are detected.
set -euo pipefail

project=$(cd "$(dirname "$0")/../.." && pwd)
place=${STREAMNB_TSAN:-$project/.tsan}
sources=$(cd "$project" && git ls-files -z streamnb .build pyproject.toml | xargs -0 sha256sum | sha256sum)
if [ "$(cat "$place/built" 2>/dev/null)" != "$sources" ]; then
    rm -rf "$place"
    python3 -m venv "$place"
    mkdir "$place/source"
    (cd "$project" && git ls-files -z | tar --null --files-from - --create) | tar --extract --directory "$place/source"
    CFLAGS="-fsanitize=thread -g -O1" LDFLAGS="-fsanitize=thread" PIP_DISABLE_PIP_VERSION_CHECK=1 \
        "$place/bin/pip" install --quiet --no-cache-dir "$place/source[test]"
    rm -rf "$place/source"
    echo "$sources" >"$place/built"
fi
LD_PRELOAD=$(gcc -print-file-name=libtsan.so) TSAN_OPTIONS="halt_on_error=0 exitcode=66 report_signal_unsafe=0" \
    exec "$place/bin/python" "$project/tests/endurance/together.py" model "$@"
