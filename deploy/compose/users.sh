#!/bin/bash
# Give the broker its users, with the passwords that first_start.py has made. It runs in the network of
# the broker's container, whose loopback alone needs no password; as often as one likes.
set -euo pipefail
for file in /etc/accountant/broker/users/*.properties; do
    name=$(basename "$file" .properties)
    /opt/kafka/bin/kafka-configs.sh --bootstrap-server 127.0.0.1:9094 --alter \
        --entity-type users --entity-name "$name" --add-config-file "$file"
done
