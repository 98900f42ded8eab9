"""Rules that the agent's author sets: budgets, rates, lists, arguments, evidence, loops, replays.

They are kept in the agent's own process and need nobody to be asked. Each part is a pure class whose clock is an
argument; `book.py` puts them together. What the processor says is beside them, and the harder of both holds.
"""
