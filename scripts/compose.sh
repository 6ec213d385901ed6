#!/bin/sh
# Run docker compose with these arguments, without Docker: the machine's own if there is one, else
# the plugin of Debian's package, unpacked into a cache. What asks no engine works: config.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/streaming-privacy-accountant/compose
plugin=$cache/usr/libexec/docker/cli-plugins/docker-compose

if docker compose version >/dev/null 2>&1; then
    exec docker compose "$@"
fi
if "$plugin" version >/dev/null 2>&1; then
    exec "$plugin" "$@"
fi

say_what_to_install() {
    cat >&2 <<TEXT
$1

Checking docker-compose.yml needs docker compose, version 2 or newer: install Docker with its
compose plugin, or run this on a Debian, where the plugin is unpacked from its package.
TEXT
    exit 1
}

command -v apt-get >/dev/null 2>&1 || say_what_to_install "Neither docker compose nor apt-get is here."
mkdir -p "$(dirname "$cache")"
work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root"
sh "$(dirname "$0")/apt_of_our_own.sh" "$work"
# A stable release may have the first version only, which was another program; so the package is
# taken from testing, of the mirror that this machine uses. The keys are the machine's.
mirror=$(apt-get indextargets --format '$(SITE)' 2>/dev/null | head -n 1)
[ -n "$mirror" ] || say_what_to_install "apt knows no mirror."
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror testing main" \
    >"$work/sources.list"
cat >>"$work/apt.conf" <<TEXT
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
TEXT
(
    cd "$work"
    apt-get -c "$work/apt.conf" -qq update && apt-get -c "$work/apt.conf" -qq download docker-compose
) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    say_what_to_install "The package docker-compose cannot be had."
}
dpkg-deb --extract "$work"/docker-compose_*.deb "$work/root"
rm -rf "$cache"
mv "$work/root" "$cache"
rm -rf "$work"  # no trap runs after exec
"$plugin" version >/dev/null || say_what_to_install "The plugin of the package does not run here."
exec "$plugin" "$@"
