"""Rules of the agent's author: budgets, rates, lists, arguments, evidence, loops, tripwires. Pure.

`evaluation.py` is the one evaluator. The core runs it for the `author_rules` of a policy (`of_policy.py`), and a guard
for the rules that it was given, before a call is made. The stricter of both has effect.
"""
