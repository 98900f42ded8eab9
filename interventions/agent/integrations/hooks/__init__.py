"""The hooks of coding agents: each agent's own JSON, and the companion that answers it."""
