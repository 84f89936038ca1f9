"""What made the shipped artefacts; not imported when ragmon runs."""
