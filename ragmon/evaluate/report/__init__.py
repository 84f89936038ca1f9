"""What an evaluation, a gate and a comparison look like: terminal, Markdown, JUnit, HTML."""
