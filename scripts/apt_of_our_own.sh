#!/bin/sh
# Write DIR/apt.conf, with which apt-get downloads packages as anybody: sources, keys, proxies and
# credentials are the machine's; state, cache and hooks are not.
set -eu

echo "Downloading packages into a cache, once (a minute)" >&2

work=$1
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
: >"$work/state/status"
cat >"$work/apt.conf" <<TEXT
Dir::State "$work/state";
Dir::State::lists "$work/state/lists";
Dir::State::status "$work/state/status";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
TEXT
