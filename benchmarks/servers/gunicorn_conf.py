"""gunicorn's settings: its plainest worker, and no control socket (which older versions do not know)."""

workers = 1
worker_class = "sync"
loglevel = "warning"
control_socket_disable = True
