"""A ledger on Kafka as servers, clients and curators read it and send to it."""
