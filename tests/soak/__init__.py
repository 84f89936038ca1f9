"""A month of traffic in an hour: the daemon stays as large as it was."""
