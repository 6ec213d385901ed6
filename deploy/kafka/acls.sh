#!/bin/sh
# The ACLs of each role under its own name: what `accountant topics acls` prints for a broker with
# TLS and SASL. For other names, prefixes and applications, print them again; see README.md.
set -eu

# auditor: `audit`, `log export`, `head`: reads the ledger and the answers
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:auditor' --operation Read --topic decisions --topic state --topic answers

# owner: owners' tools that speak Kafka: writes admin requests, reads the ledger
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:owner' --operation Write --topic admin
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:owner' --operation Describe --topic requests
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:owner' --operation Read --topic decisions --topic state

# engine: a program that asks for analysts: trusted to name itself and the analysts
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:engine' --operation Write --topic requests
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:engine' --operation Read --topic decisions --topic state

# gateway: `gateway`: writes authenticated requests, reads the ledger and the answers
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:gateway' --operation Write --topic requests --topic admin
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:gateway' --operation Read --topic decisions --topic state --topic answers

# curator: `curator`: runs questions, and is the only writer of the answers
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:curator' --operation Write --topic requests
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:curator' --operation Read --topic decisions --topic state
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:curator' --operation Read --operation Write --topic answers
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:curator' --operation Write --transactional-id accountant-answers- --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:curator' --operation Read --group accountant-answers

# worker: `worker`: decides, and is the only writer of the ledger
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:worker' --operation Read --operation DescribeConfigs --topic requests --topic admin --topic answers
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:worker' --operation Read --operation Write --operation DescribeConfigs --topic decisions --topic state --topic alerts
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:worker' --operation Write --operation DescribeConfigs --topic dead-letters
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:worker' --operation Write --transactional-id accountant- --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:worker' --operation Read --group accountant --group accountant-webhook --group accountant.alert-relay

# operator: `topics`, `log restore`, `clock reset`, `key rotate`, `accept-rollback`: may write everything, so use it by hand and only while needed
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:operator' --operation Read --operation Write --operation Create --operation AlterConfigs --operation DescribeConfigs --topic requests --topic admin --topic decisions --topic state --topic dead-letters --topic alerts --topic answers
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:operator' --operation Write --transactional-id accountant- --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:operator' --operation Describe --group accountant
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:operator' --operation Delete --group accountant-answers --group accountant.alert-relay
kafka-acls.sh --bootstrap-server broker:9093 --command-config client.properties --add --allow-principal 'User:operator' --operation Describe --cluster
