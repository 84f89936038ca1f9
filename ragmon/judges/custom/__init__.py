"""Custom judges: a prompt of one's own for the language model, or a Python function.

``options`` has their settings, ``question`` asks the language model, ``worker`` runs a function
in a process of its own. A custom judge grades what its owner cares about, such as the tone: its
score never counts as faithfulness.
"""
