#!/usr/bin/env bash
# Fuzz streamnb: tests/fuzz/fuzz.sh [TARGET ...] [--native] [--minutes 1] [--jobs 2] [--minimise]
#
# Builds the compiled module, and the targets that are compiled with it, with coverage and the address
# and undefined-behaviour sanitizers, in an environment of its own (.fuzz in this project), which wants
# clang; then begins run.py.
set -euo pipefail

project=$(cd "$(dirname "$0")/../.." && pwd)
place=${STREAMNB_FUZZ:-$project/.fuzz}
command -v clang >/dev/null || { echo "fuzz.sh: clang is missing: apt-get install clang" >&2; exit 2; }

# What is installed is built anew where any of its sources has changed.
sources=$(cd "$project" && git ls-files -z streamnb .build pyproject.toml tests/fuzz/fuzz.sh tests/fuzz/native.pyx | xargs -0 sha256sum | sha256sum)
if [ "$(cat "$place/built" 2>/dev/null)" != "$sources" ]; then
    rm -rf "$place"
    python3 -m venv "$place"
    # Calls that Cython makes without arguments add nothing to a null pointer.
    sanitizers="-fsanitize=address,undefined -fno-sanitize=pointer-overflow -fno-sanitize-recover=undefined"
    flags="-fsanitize=fuzzer-no-link $sanitizers"
    # A copy, so that no object file of another build is taken.
    mkdir "$place/source"
    (cd "$project" && git ls-files -z | tar --null --files-from - --create) | tar --extract --directory "$place/source"
    CC=clang LDSHARED="clang -shared" CFLAGS="$flags -g -O1" LDFLAGS="$flags" PIP_DISABLE_PIP_VERSION_CHECK=1 \
        "$place/bin/pip" install --quiet --no-cache-dir "$place/source[fuzz]"
    "$place/bin/cython" -3 -I "$place/source" --module-name fuzz_native -o "$place/fuzz_native.c" "$place/source/tests/fuzz/native.pyx"
    # shellcheck disable=SC2046,SC2086 (lists of words)
    clang -shared -fPIC -O2 -g -ffp-contract=off $sanitizers -fsanitize-coverage=inline-8bit-counters,pc-table \
        $("$place/bin/python" -c "import numpy, sysconfig; print('-I' + numpy.get_include(), '-I' + sysconfig.get_path('include'))") \
        -o "$("$place/bin/python" -c "import sysconfig; print(sysconfig.get_path('platlib'))")/fuzz_native.so" "$place/fuzz_native.c"
    rm -rf "$place/source"
    echo "$sources" >"$place/built"
fi
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
LD_PRELOAD=$("$place/bin/python" -c "import atheris; print(atheris.path())")/asan_with_fuzzer.so
export LD_PRELOAD
exec "$place/bin/python" "$project/tests/fuzz/run.py" "$@"
