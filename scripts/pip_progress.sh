#!/bin/sh
# Read what pip prints while it installs $1 packages, and print a line now and then.
# A refusal of pip is on standard error, which does not pass through here.
set -eu

all=$1
found=0
while read -r first line; do
    case "$first $line" in
        "Collecting "* | "Requirement already satisfied: "*)
            found=$((found + 1))
            if [ $((found % 25)) -eq 0 ] && [ "$found" -lt "$all" ]; then
                echo "  $found of $all packages are here"
            fi ;;
        "Installing collected packages: "*)
            echo "  all packages are here; unpacking them takes a minute" ;;
    esac
done
