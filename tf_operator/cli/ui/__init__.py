"""``tfjob ui``: pages on loopback that show jobs as they run, with the rights of the user who starts it.

    browser --> site: guard, files --> board: all jobs, one watch for each kind
                                   +-> job_feed, log_feed: one job, for as long as somebody looks at it

The server sends data only; the pages are static files, whose modules put each value into the document as text.
A job is changed by POST alone, with the token of its page, as its user may in a terminal.
"""
