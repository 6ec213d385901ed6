"""The roles on the brokers, their ACLs, and the check of a cluster's ACLs against them."""
