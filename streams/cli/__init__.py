"""The command `accountant`: one file a group of commands. `root` has its entry point."""
