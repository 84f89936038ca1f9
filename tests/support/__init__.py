"""What several tests share: waiting, running daemons, reading metrics, records to send."""
