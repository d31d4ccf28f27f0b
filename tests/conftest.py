"""One thread a process: the suite already runs one process a core, and small trees only wait."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
