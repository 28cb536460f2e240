"""`python -m api`: see `api/process.py`."""

import logging
import os
import signal

if __name__ == "__main__":
    # Before all else is imported, which takes a second: who is asked to end meanwhile ends in order too.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    from api.process import main

    code = main()
    logging.shutdown()
    # A thread that waits for a storage may go on for minutes: nothing that it does is lost by ending it here.
    os._exit(code)
