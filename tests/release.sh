#!/usr/bin/env bash
# Build, check and tag a release: tests/release.sh VERSION. Nothing is published.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?usage: tests/release.sh VERSION}
fail() { echo "tests/release.sh: $*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || fail "uncommitted changes; commit them first"
grep -q "^version = \"$version\"" pyproject.toml || fail "pyproject.toml has another version; change it first"
grep -q "^__version__ = \"$version\"" streamnb/__init__.py || fail "streamnb/__init__.py has another version; change it first"
grep -q "^## $version" CHANGELOG.md || fail "CHANGELOG.md has no section '## $version'; write it first"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet build twine
"$work/tools/bin/python" -m build --outdir "$work/dist" .             # the wheel is built from the source distribution
"$work/tools/bin/twine" check --strict "$work"/dist/*
python3 - "$work"/dist/*.whl <<'END'
import sys, zipfile
names = zipfile.ZipFile(sys.argv[1]).namelist()
for part in ("streamnb/py.typed", "streamnb/web/templates/", "share/man/man1/streamnb.1"):
    if not any(part in name for name in names):
        raise SystemExit(f"tests/release.sh: the wheel lacks {part}")
if any(name.startswith("tests/") for name in names):
    raise SystemExit("tests/release.sh: the wheel holds the tests")
END
python3 -m venv "$work/user"
"$work/user/bin/pip" install --quiet "$work"/dist/*.whl
sample=$PWD/corpora/sample
(cd "$work" && user/bin/streamnb replay "$sample" --json >/dev/null)
mkdir -p dist
cp "$work"/dist/* dist/
git tag --annotate "v$version" --message "streamnb $version"
echo "dist/ holds the release; tag v$version was made. Publish: git push --tags; twine upload dist/*"
