#!/bin/sh
# Unpack Prometheus and Alertmanager, with promtool and amtool, into a cache, and print the
# directory that holds the programs. Nothing is installed, and no root is needed: the packages
# come by apt from the sources that this machine trusts, into an apt state of our own.
# OBSERVABILITY_BIN=DIR takes the programs of a directory instead.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/streaming-privacy-accountant/observability

say_what_to_install() {
    cat >&2 <<TEXT
$1

The tests of rules and alerts run the real Prometheus and Alertmanager. They are unpacked from
the packages of a Debian or Ubuntu, for which apt-get and dpkg-deb must be there (packages apt
and dpkg), with a reachable mirror. On another system install both programs, and say where:
    make OBSERVABILITY_BIN=/path/to/bin test-observability
for a directory with prometheus, promtool, amtool, and alertmanager (or prometheus-alertmanager).
TEXT
    exit 1
}

works() {
    for program in prometheus promtool amtool; do
        "$1/$program" --version >/dev/null 2>&1 || return 1
    done
    "$1/prometheus-alertmanager" --version >/dev/null 2>&1 ||
        "$1/alertmanager" --version >/dev/null 2>&1
}

if [ -n "${OBSERVABILITY_BIN:-}" ]; then
    works "$OBSERVABILITY_BIN" ||
        say_what_to_install "OBSERVABILITY_BIN=$OBSERVABILITY_BIN lacks one of the programs."
    echo "$OBSERVABILITY_BIN"
    exit
fi
if works "$cache/usr/bin"; then
    echo "$cache/usr/bin"
    exit
fi
command -v apt-get >/dev/null 2>&1 || say_what_to_install "apt-get is not here."
command -v dpkg-deb >/dev/null 2>&1 || say_what_to_install "dpkg-deb is not here."

mkdir -p "$(dirname "$cache")"
work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/packages" "$work/root"
sh "$(dirname "$0")/apt_of_our_own.sh" "$work"
(
    cd "$work/packages"
    apt-get -c "$work/apt.conf" -qq update &&
        # Newer releases have promtool in a package of its own.
        apt-get -c "$work/apt.conf" -qq download prometheus prometheus-alertmanager \
            $(apt-cache -c "$work/apt.conf" pkgnames promtool)
) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    say_what_to_install "The packages prometheus and prometheus-alertmanager cannot be had."
}
for package in "$work"/packages/*.deb; do
    dpkg-deb --extract "$package" "$work/root"
done
# Debian's older Alertmanager reads its templates at a fixed place of an installed system. A path
# of the same length from the directory that it is started in: that of usr/.
LC_ALL=C sed -i 's|/usr/share/prometheus/alertmanager|usr//share/prometheus/alertmanager|g' \
    "$work/root/usr/bin/prometheus-alertmanager"
works "$work/root/usr/bin" || say_what_to_install "The programs of the packages do not run here."
rm -rf "$cache"
mv "$work/root" "$cache"
echo "$cache/usr/bin"
