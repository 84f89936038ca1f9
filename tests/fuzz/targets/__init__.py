"""One module a target: ``run(data)`` raises when what it promises does not hold."""
