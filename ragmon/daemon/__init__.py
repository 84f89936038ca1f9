"""The daemon: the shell that drives the pipeline on live traffic."""
