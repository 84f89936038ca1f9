"""A local model as judge: weights of the user's, in a process of its own, without an account.

Four kinds of published models (``ragmon.judges.local.options``): LettuceDetect names the tokens of
an answer that the passages do not support; HHEM, MiniCheck and models of natural language
inference give the chance that a passage supports a sentence. Texts are laid out as the models'
authors do (``prompts``), cut to their windows (``passages``) and combined (``token_judge``,
``pair_judge``). PyTorch and Transformers are imported by the process alone (``network``,
``worker``), never by the daemon.
"""
