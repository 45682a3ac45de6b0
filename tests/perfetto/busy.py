"""A job with every kind of thread: busy ones, sleeping ones, a pipeline, writes, short lives, children."""
import hashlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

END = time.monotonic() + float(sys.argv[1])


def until_end(work):
    def run():
        while time.monotonic() < END:
            work()

    return run


def write():
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 10_000)
        file.flush()
        os.fsync(file.fileno())


def short_lived():
    thread = threading.Thread(target=time.sleep, args=(0.01,))
    thread.start()
    thread.join()


pipeline = queue.Queue(4)


def produce():
    while time.monotonic() < END:
        pipeline.put(sum(range(2000)))
    pipeline.put(None)


def consume():
    while pipeline.get() is not None:
        pass


spin = until_end(lambda: hashlib.sha256(b"x" * 200_000).digest())
threads = [spin, spin, until_end(lambda: time.sleep(0.0003)), produce, consume]
threads += [until_end(write), until_end(short_lived), until_end(lambda: subprocess.run(["/bin/true"]))]
threads = [threading.Thread(target=thread) for thread in threads]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
