"""Training of the shipped artefacts; not imported when ragmon runs."""
