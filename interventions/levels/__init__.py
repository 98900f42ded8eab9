"""Which level a finding leads to: by default, and by the strategies of a policy and of packages. Pure."""
