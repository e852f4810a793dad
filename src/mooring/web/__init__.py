"""HTTP, once for all services: routes, versions, faults, tokens, policy, paging."""
