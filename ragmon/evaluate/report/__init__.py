"""Reports of an evaluation, a gate and a comparison: terminal, Markdown, JUnit, HTML."""
