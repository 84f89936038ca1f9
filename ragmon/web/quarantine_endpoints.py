"""Paths of the quarantine, as ``ragmon.web.endpoints`` has those of everything else."""

from typing import Literal

from ragmon import quarantine_schema
from ragmon.web.endpoint import LIMIT, Endpoint, Parameter

QuarantineStage = Literal["", "decode", "map", "judge", "send"]
_ENTRY = Parameter("number", "Id of the entry as it is listed, such as 7 or send-7.")
QUARANTINE = Endpoint(
    name="quarantine",
    method="GET",
    path="/v1/quarantine",
    scope="read",
    tag="Quarantine",
    summary="What could not be decoded, mapped, judged or sent",
    parameters=(Parameter("stage", "Only this stage; empty for all.", QuarantineStage, ""), LIMIT),
    answer=quarantine_schema.QuarantineList,
    problems=(400,),
)
QUARANTINE_ENTRY = Endpoint(
    name="quarantineEntry",
    method="GET",
    path="/v1/quarantine/{number}",
    scope="read",
    tag="Quarantine",
    summary="One entry with its content",
    parameters=(_ENTRY,),
    answer=quarantine_schema.QuarantineDetail,
    problems=(404,),
)
RETRY_ENTRY = Endpoint(
    name="retryQuarantineEntry",
    method="POST",
    path="/v1/quarantine/{number}/retry",
    scope="admin",
    tag="Quarantine",
    summary="Try again what failed; the entry is removed if it succeeds",
    help="A notification is put back into the outbox. A trace is mapped in a process of its own. "
    "An answer is judged after this is answered with 202: while `under_way` stands in its entry, "
    "the outcome is not known.",
    parameters=(_ENTRY,),
    answer=quarantine_schema.RetriedEntry,
    may_go_on=True,
    problems=(404,),
)
DELETE_ENTRY = Endpoint(
    name="deleteQuarantineEntry",
    method="DELETE",
    path="/v1/quarantine/{number}",
    scope="admin",
    tag="Quarantine",
    summary="Delete an entry",
    parameters=(_ENTRY,),
    answer=quarantine_schema.DeletedEntry,
    problems=(404,),
)

EVERY = (QUARANTINE, QUARANTINE_ENTRY, RETRY_ENTRY, DELETE_ENTRY)
"""All of them, in the order of the document."""
