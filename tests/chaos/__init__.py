"""Workers, evaluators, PostgreSQL and Kafka that die at random, and what counts in the end.

All are real programs: a broker, a server whose last commits are lost with it, daemons by fork. A
daemon that nobody touches reads the same topic alone; the cluster has to come to its numbers.
"""
