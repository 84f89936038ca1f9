"""Paths that change an incident, as ``ragmon.web.endpoints`` has those of everything else."""

from msgspec import Struct

from ragmon.alerts.as_json import IncidentView
from ragmon.silence_schema import ShortText
from ragmon.web.endpoint import Endpoint, Parameter


class AcknowledgeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Word that somebody works on an incident."""

    note: ShortText = ""
    by: ShortText = ""  # empty: the name of the token


_INCIDENT = Parameter("name", "Id of the incident.")
ACKNOWLEDGE = Endpoint(
    name="acknowledgeIncident",
    method="POST",
    path="/v1/incidents/{name}/acknowledge",
    scope="admin",
    tag="Alerts",
    summary="Say that somebody works on an incident: reminders stop unless it becomes graver",
    help="The receivers of the incident are told. Answers once it is on disk. 404 for an incident"
    " that is over, or that nobody was notified of.",
    parameters=(_INCIDENT,),
    body=AcknowledgeRequest,
    answer=IncidentView,
    problems=(400, 404),
)
UNACKNOWLEDGE = Endpoint(
    name="unacknowledgeIncident",
    method="DELETE",
    path="/v1/incidents/{name}/acknowledge",
    scope="admin",
    tag="Alerts",
    summary="Say that nobody works on an incident any more: reminders go on",
    parameters=(_INCIDENT,),
    answer=IncidentView,
    problems=(404,),
)

EVERY = (ACKNOWLEDGE, UNACKNOWLEDGE)
"""All of them, in the order of the document."""
