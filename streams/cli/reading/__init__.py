"""Input of the commands: options, files, lines and logs."""
