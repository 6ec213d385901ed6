#!/bin/sh
# Print the directory of PostgreSQL's server programs: of this machine, or unpacked into a cache.
# Nothing is installed, and no root is needed: the packages come by apt from the sources that this
# machine trusts. POSTGRESQL_BIN=DIR takes the programs of a directory instead.
set -eu

# Root runs the server as another user, who cannot look into root's home.
if [ "$(id -u)" = 0 ]; then caches=/var/cache; else caches=${XDG_CACHE_HOME:-$HOME/.cache}; fi
cache=$caches/streaming-privacy-accountant/postgresql

say_what_to_install() {
    cat >&2 <<TEXT
$1

The tests of sources run a real PostgreSQL, 12 or newer. Install its server with the system's
package manager (Debian and Ubuntu: postgresql), or say where its programs are:
    make POSTGRESQL_BIN=/path/to/bin test-sources
for a directory with initdb and postgres. Otherwise they are unpacked from the packages of a Debian
or Ubuntu, for which apt-get and dpkg-deb must be there, with a reachable mirror.
TEXT
    exit 1
}

works() {
    "$1/initdb" --version >/dev/null 2>&1 && "$1/postgres" --version >/dev/null 2>&1
}

if [ -n "${POSTGRESQL_BIN:-}" ]; then
    works "$POSTGRESQL_BIN" ||
        say_what_to_install "POSTGRESQL_BIN=$POSTGRESQL_BIN lacks one of the programs."
    echo "$POSTGRESQL_BIN"
    exit
fi
for directory in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5,5nr) "$cache/bin"; do
    if works "$directory"; then
        echo "$directory"
        exit
    fi
done
command -v apt-get >/dev/null 2>&1 || say_what_to_install "apt-get is not here."
command -v dpkg-deb >/dev/null 2>&1 || say_what_to_install "dpkg-deb is not here."

mkdir -p "$(dirname "$cache")"
work=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/cache/archives/partial" "$work/root"
sh "$(dirname "$0")/apt_of_our_own.sh" "$work"
(
    apt-get -c "$work/apt.conf" -qq update
    version=$(apt-cache -c "$work/apt.conf" pkgnames postgresql-1 | grep -x 'postgresql-1[0-9]' | sort | tail -1)
    # What this machine has already is not downloaded again.
    apt-get -c "$work/apt.conf" -o Dir::State::status=/var/lib/dpkg/status -o Debug::NoLocking=true \
        -qq --yes --no-install-recommends --download-only install "$version"
) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    say_what_to_install "The package postgresql cannot be had."
}
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --extract "$package" "$work/root"
done
libraries=$(find "$work/root/usr/lib" -maxdepth 1 -type d -name '*-linux-gnu' | sed "s|^$work/root||")
real=$(cd "$work/root" && ls -d usr/lib/postgresql/*/bin)
mkdir "$work/root/bin"
for program in initdb postgres; do
    # Programs of one directory find each other by its path, and their data from there.
    cat >"$work/root/bin/$program" <<TEXT
#!/bin/sh
export LD_LIBRARY_PATH=$cache$libraries
exec $cache/$real/$program "\$@"
TEXT
    chmod 755 "$work/root/bin/$program"
done
rm -rf "$cache"
mv "$work/root" "$cache"
works "$cache/bin" || say_what_to_install "The programs of the packages do not run here."
echo "$cache/bin"
