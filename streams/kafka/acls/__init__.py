"""Who may do what on the brokers: the roles, their ACLs, and a look at those that there are."""
