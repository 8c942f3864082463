"""The HTTP that the gateway speaks on its sockets, with bounds on all that a peer may send."""
