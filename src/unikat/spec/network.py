"""Every use of the network, in the words of README, `--help` and the workbench."""

NETWORK = (
    "unikat sends nothing anywhere. It uses the network only where you ask for it: the workbench "
    "(unikat web) listens on 127.0.0.1, and so do the processes of --executor dask. A database "
    "of PostgreSQL or a cluster (--executor dask:ADDRESS, ray:ADDRESS or mpi) is reached at the "
    "address that you name or confirm, and never at one that a file alone names."
)
