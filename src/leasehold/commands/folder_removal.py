"""Removes the working folder of a command. The guard imports this file, too, so it imports little."""

import os


def remove_folder(folder: str) -> None:
    """Removes a folder of which no process is left, with a bounded number of descriptors however deep it is.

    Moves nested folders to the top instead of descending: a path may be too long, and a recursion too deep.
    """
    os.chmod(folder, 0o700)
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    mark, count = os.urandom(8).hex(), 0
    try:
        while entries := entries_of(top):
            for name, is_folder in entries:
                if not is_folder:
                    os.unlink(name, dir_fd=top)
                    continue
                os.chmod(name, 0o700, dir_fd=top)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                for inner_name, inner_is_folder in entries_of(inner):
                    if inner_is_folder:
                        count += 1
                        os.chmod(inner_name, 0o700, dir_fd=inner)  # a folder is moved only if it can be written
                        os.rename(inner_name, f"{mark}-{count}", src_dir_fd=inner, dst_dir_fd=top)
                    else:
                        os.unlink(inner_name, dir_fd=inner)
                os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)


def entries_of(descriptor: int) -> list[tuple[str, bool]]:
    with os.scandir(descriptor) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
