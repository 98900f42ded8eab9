"""Rules of the agent's author: budgets, rates, lists, arguments, evidence, loops, replays.

They are applied in the agent's own process, without a worker. Each part is a pure class whose clock is an argument;
`book.py` combines them. Decisions of the processor apply as well; the stricter of both has effect.
"""
