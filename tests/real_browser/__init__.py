"""People at a browser, programs at the endpoint, and server processes between them."""
