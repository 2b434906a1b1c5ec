"""An API server in one process: a state machine without sockets (``server``), and its HTTP (``http``).

    request value --> server --> reads | writes --> store --> answer value, and events for watches

The store is memory; a journal keeps each committed write before it is answered.
"""
