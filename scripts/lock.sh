#!/bin/sh
# Write requirements/*.txt: every version of every dependency, with hashes, for all supported
# Pythons and platforms at once. The files name no download address: see decision 0002.
set -eu

venv=$1
# uv itself is locked too; it comes in here so that no other recipe waits for it.
"$venv/bin/python" -m pip install --quiet --require-hashes -r requirements/lock.txt

compile() {
    output=$1
    shift
    "$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --custom-compile-command "make lock" $UPGRADE --output-file "requirements/$output" "$@"
    echo "requirements/$output: $(grep -c '==' "requirements/$output") packages"
}

# Without UPGRADE, versions already locked stay; UPGRADE=--upgrade takes the newest.
UPGRADE=${UPGRADE:-}
parts="--extra server --extra kafka"
shipped="$parts --extra otel"
engines="--extra opendp --extra diffprivlib --extra dp-accounting"
optional="--extra answers --extra local-kafka --extra mechanisms"
compile dev.txt $shipped $optional $engines --group dev pyproject.toml
# The other files agree with dev.txt: what is tested is what is shipped.
compile runtime.txt --constraint requirements/dev.txt $shipped pyproject.toml
# What the image of a curator has.
compile curator.txt --constraint requirements/dev.txt $shipped --extra answers pyproject.toml
compile build.txt --constraint requirements/dev.txt --group build
compile lock.txt --group lock
compile security.txt --group build --group security
# What the benchmarks compare with: decision 0003.
compile peers.txt --group peers
# The pages' tests in a real browser have an environment of their own: decision 0062.
compile browser.txt --constraint requirements/dev.txt $parts --extra answers --group build \
    --group test --group browser pyproject.toml
# PyTorch brings CUDA, so that Opacus has an environment of its own: decision 0046.
compile opacus.txt --constraint requirements/dev.txt $parts --extra dp-accounting \
    --group build --group test --group opacus pyproject.toml
# SmartNoise pins an older OpenDP, so that it has an environment of its own: decision 0046.
compile smartnoise.txt $parts $engines --extra smartnoise --group build --group test pyproject.toml
