"""What commands read: options, files, lines, logs."""
