"""What an operator watches: operations, hosts, commits and requests, for Prometheus."""
