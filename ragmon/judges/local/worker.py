"""The local judge in a process of its own: ``python -m ragmon.judges.local.worker OPTIONS``.

Options are those of ``judge.local`` as JSON. It speaks as ``ragmon.judges.worker`` does.
"""

import importlib
import os
import sys

from ragmon.judges.local.options import Options, check
from ragmon.judges.worker import BatchJudge, ConversationBatches, run


def load(options: Options) -> BatchJudge:
    """The judge; PyTorch is imported here, once the environment says what it may do.

    Raises:
        RagmonError: the extra or the model is not there, or the model is of another kind.
    """
    check(options)
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # texts are counted one by one
    if not options.allow_download:
        os.environ["HF_HUB_OFFLINE"] = "1"
    judge: BatchJudge = importlib.import_module("ragmon.judges.local.loading").load(options)
    return ConversationBatches(judge)


if __name__ == "__main__":
    settings = Options.model_validate_json(sys.argv[1])
    run(lambda: load(settings), settings.max_cpu)
