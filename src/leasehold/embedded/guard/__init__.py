"""The guard: the process that owns an embedded Postgres and runs as long as clients need it.

The guard makes the cluster if it does not exist, starts postgres as its child, restarts it when it dies, and
stops it when the last client has ended. It does not count clients: every client holds a shared `flock` on
`clients.lock`, which the kernel releases even on kill -9, and the guard tries to take the exclusive one.

    clients.lock   shared: one per client · exclusive: the guard, when no client is left and it stops
    guard.lock     exclusive: the guard, as long as it runs
    start.lock     exclusive: the client that starts the server, until it is ready

The modules of this package import the standard library and each other alone, and run by the path of their folder
(`python -I -S …/embedded/guard HOME`): loading all of Leasehold would bring a database driver and more into a process
that may sleep for weeks. So they import each other relatively.
"""
