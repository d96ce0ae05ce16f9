"""What looks at a run: callables on a state, which never change it."""
