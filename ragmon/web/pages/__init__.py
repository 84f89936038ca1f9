"""Pages for people, rendered here from templates: an overview, a pipeline, an incident.

``rendering`` turns a template into an answer, ``assets`` serves the style sheet and the script
under addresses that hold their content's hash. Every page works without the script; what a client
sent is only ever text in it.
"""
