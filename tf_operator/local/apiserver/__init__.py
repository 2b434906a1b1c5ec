"""An API server in one process: a state machine without sockets (``server``), and its HTTP (``http``).

    http --> server --> requests --> reads | writes | discovery --> storage --> answer, and events for watches
                                     (forms, validation: what is sent, as kube-apiserver reads and refuses it)

It knows no kind: ``built_in`` and ``definitions`` make values of ``kinds.Kind``, and ``registry`` has them. The storage
is memory; a journal keeps each committed write before it is answered.
"""
