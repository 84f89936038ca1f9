"""The daemon: drives the pipeline on live traffic, with threads, sockets, a store and a clock."""
