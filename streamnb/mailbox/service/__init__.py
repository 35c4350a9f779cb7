"""`streamnb serve`: the server, its protocols, and the client of its Unix socket."""
