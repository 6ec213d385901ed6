#!/bin/sh
# Make the virtual environment at $1: locked packages by hash, those of the file $2 if one is
# named, then this project, editable.
# PYTHON selects the interpreter; else the newest supported one that works is taken.
set -eu

venv=$1
requirements=${2:-requirements/dev.txt}
python=${PYTHON:-}

# Prints the version when this interpreter runs and is new enough. An interpreter can be on the
# PATH and yet not run (a version manager's shim), so it is tried rather than looked up.
# An answer is believed only when it is the one line that was asked for.
version_of() {
    "$1" -c 'import sys
v = sys.version_info
print(f"{v[0]}.{v[1]}" if v >= (3, 11) else "old")' 2>/dev/null || true
}

can_make_environments() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

say_what_to_install() {
    cat >&2 <<TEXT
$1

This project needs Python 3.11 or newer with its venv module. Install one, for instance
    Debian, Ubuntu:  sudo apt-get install python3 python3-venv
    Fedora:          sudo dnf install python3
    macOS:           brew install python@3.13
or say which one to use:  make PYTHON=/path/to/python3.12 setup
TEXT
    exit 1
}

if [ -n "$python" ]; then
    case $(version_of "$python") in
        3.*) ;;
        old) say_what_to_install "PYTHON=$python is older than 3.11." ;;
        *) say_what_to_install "PYTHON=$python does not run." ;;
    esac
    can_make_environments "$python" ||
        say_what_to_install "PYTHON=$python has no venv module (Debian keeps it in python3-venv)."
else
    seen=""
    for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
        version=$(version_of "$candidate")
        case $version in
            3.*) ;;
            old) seen="$seen $candidate (older than 3.11)"; continue ;;
            *) continue ;;
        esac
        if can_make_environments "$candidate"; then
            python=$candidate
            break
        fi
        seen="$seen $candidate ($version, no venv module: Debian keeps it in python3-venv)"
    done
    [ -n "$python" ] || say_what_to_install "No usable Python found${seen:+; found:$seen}."
fi

# Recreate an environment whose interpreter no longer exists; reuse a working one.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "Making $venv with $python ($(version_of "$python"))"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
count=$(grep -c '^[A-Za-z0-9].*==' "$requirements")
echo "Installing $count locked packages into $venv. The first time this takes some minutes, most"
echo "of it for downloads. Later runs take seconds."

# pip shows its own progress on a terminal; a log gets a line for every 25 packages.
install_packages() {
    "$venv/bin/python" -m pip install "$@" --require-hashes -r "$requirements"
}
if [ -t 1 ]; then
    install_packages
else
    failed=$(mktemp)
    trap 'rm -f "$failed"' EXIT
    { install_packages --progress-bar off || echo failed >"$failed"; } |
        sh "$(dirname "$0")/pip_progress.sh" "$count"
    [ ! -s "$failed" ] || exit 1
fi
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
echo "$venv is ready: . $venv/bin/activate"
