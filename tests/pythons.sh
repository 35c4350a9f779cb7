#!/usr/bin/env bash
# Run the test suite on Debian's interpreters, each in a folder of its own made by debootstrap (as root).
#
#     tests/pythons.sh trixie sid            # Python 3.13 and 3.14
#     tests/pythons.sh trixie -- -k sweep    # arguments of pytest after --
#
# STREAMNB_PYTHONS names the folder that keeps the systems; without it they are made anew and removed.
# The README's second command runs there in a clone of this repository, by a user without privileges.
set -euo pipefail

repository=$(cd "$(dirname "$0")/.." && pwd)
suites=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do suites+=("$1"); shift; done
[ "${1:-}" = -- ] && shift
[ ${#suites[@]} -gt 0 ] || { echo "usage: tests/pythons.sh SUITE ... [-- PYTEST ARGUMENTS]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "tests/pythons.sh: debootstrap and chroot need root; run as root" >&2; exit 2; }
command -v debootstrap >/dev/null || apt-get install -qq -y debootstrap >/dev/null

systems=${STREAMNB_PYTHONS:-}
if [ -z "$systems" ]; then
    systems=$(mktemp -d)
    remove_systems() { rm -rf "$systems"; }
else
    mkdir -p "$systems"
    remove_systems() { :; }
fi
mounted=()
clean_up() {
    for point in "${mounted[@]}"; do umount -l "$point" || true; done
    remove_systems
}
trap clean_up EXIT

arguments=$([ $# = 0 ] || printf '%q ' "$@")
packages=python3,python3-venv,python3-dev,gcc,libc6-dev,git,ca-certificates,procps
command=$(sed -n '/<!-- commands -->/,/<!-- end -->/p' "$repository/README.md" | grep '^python3 ' | sed -n 2p)
for suite in "${suites[@]}"; do
    system=$systems/$suite
    if [ ! -e "$system/usr/bin/python3" ]; then
        debootstrap --variant=minbase --include="$packages" "$suite" "$system" \
            "${STREAMNB_MIRROR:-http://deb.debian.org/debian}" >"$systems/$suite.log" 2>&1 ||
            { tail -20 "$systems/$suite.log"; exit 1; }
    fi
    chroot "$system" id tester >/dev/null 2>&1 || chroot "$system" useradd --create-home tester
    for point in proc dev dev/shm dev/pts; do
        [ -d "/$point" ] || continue
        mkdir -p "$system/$point"
        mountpoint -q "$system/$point" || { mount --bind "/$point" "$system/$point"; mounted=("$system/$point" "${mounted[@]}"); }
    done
    cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
    cp -L /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"  # a proxy may have one of its own
    rm -rf "$system/home/tester/streamnb"
    git clone --quiet "$repository" "$system/home/tester/streamnb"
    chroot "$system" chown -R tester: /home/tester/streamnb
    echo "== $suite: $(chroot "$system" python3 --version)"
    chroot "$system" su tester -c "
        cd ~/streamnb && export STREAMNB_TESTS='${STREAMNB_TESTS:-}' PIP_DISABLE_PIP_VERSION_CHECK=1 &&
        $command $arguments"
done
