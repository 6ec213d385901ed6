#!/bin/sh
# Install the OpenID provider of `make test-provider` into the directory $1: a package of npm and
# what it needs, each by the hash in tests/provider/package-lock.json. Nothing of theirs is run.
set -eu

target=$1
source=$(dirname "$0")/../tests/provider

say_what_to_install() {
    cat >&2 <<TEXT
$1

The HTTP server is tested with a real OpenID provider, which is a program for Node.js 20.12 or newer and
comes by npm, with a reachable registry. Install both, for instance
    Debian, Ubuntu:  sudo apt-get install nodejs npm
    Fedora:          sudo dnf install nodejs-npm
    macOS:           brew install node
TEXT
    exit 1
}

command -v node >/dev/null 2>&1 || say_what_to_install "node is not here."
command -v npm >/dev/null 2>&1 || say_what_to_install "npm is not here."
# What came with that version, and what the provider asks for as it starts.
node -e 'process.exit(typeof require("node:crypto").hash === "function" ? 0 : 1)' ||
    say_what_to_install "node is $(node --version)."

echo "Downloading the provider's packages, once (a minute)" >&2
mkdir -p "$target"
for file in package.json package-lock.json .npmrc; do
    cp "$source/$file" "$target/$file"
done
# `npm ci` takes the versions of the lock or none, and refuses content of another hash.
(cd "$target" && npm ci --ignore-scripts --loglevel=error) >&2 ||
    say_what_to_install "The provider's packages cannot be had."
