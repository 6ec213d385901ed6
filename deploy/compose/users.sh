#!/bin/bash
# Create the broker's users with the passwords of first_start.py. It runs in the network of the
# broker's container, since only its loopback needs no password. It is safe to repeat.
set -euo pipefail
for file in /etc/accountant/broker/users/*.properties; do
    name=$(basename "$file" .properties)
    /opt/kafka/bin/kafka-configs.sh --bootstrap-server 127.0.0.1:9094 --alter \
        --entity-type users --entity-name "$name" --add-config-file "$file"
done
