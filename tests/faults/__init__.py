"""Faults of disk, clock and process, and what a real daemon makes of them.

They are injected by a small C library that is preloaded into the daemon: what is tested is then the
very code that ships, with the SQLite and the C library of the machine. A VFS of SQLite would need
a second SQLite (the standard module can register none) and would see neither the clock nor the
other files.
"""
