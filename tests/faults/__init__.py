"""What goes wrong in production, made to go wrong here: real server processes are killed, cut off and lied to."""
