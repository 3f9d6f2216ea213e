"""huey on SQLite: add one by one, and drain of a task that does nothing. Arguments: file, number of jobs.

Prints one line of JSON. Every commit is synced. Results are not stored, and several numbers of worker threads are tried.
"""

import json
import logging
import sys
import threading
import time

# No job takes this long; whoever waits longer waits for one that is lost.
STALLED = 60.0

import huey as package
from huey import SqliteHuey

logging.disable(logging.CRITICAL)
path, count = sys.argv[1], int(sys.argv[2])
add = best = 0.0
chosen = ""
for workers in (1, 2, 4):
    queue = SqliteHuey(filename=f"{path}-{workers}", results=False, fsync=True)
    lock, done, finished = threading.Lock(), [0], threading.Event()

    @queue.task()
    def noop(page, document):
        with lock:
            done[0] += 1
            if done[0] == count:
                finished.set()

    begin = time.perf_counter()
    for _ in range(count):
        noop(17, "a-document-of-some-length.pdf")
    add = max(add, count / (time.perf_counter() - begin))
    consumer = queue.create_consumer(
        workers=workers, worker_type="thread", periodic=False, initial_delay=0.001, max_delay=0.01
    )
    print(f"huey: {count} jobs added, drained by {workers} …", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    consumer.start()
    seen = -1
    while not finished.wait(STALLED):
        if done[0] == seen:
            sys.exit(f"huey: {count - seen} of {count} jobs never came")
        seen = done[0]
    rate = count / (time.perf_counter() - begin)
    consumer.stop(graceful=True)
    if rate > best:
        best, chosen = rate, "1 thread" if workers == 1 else f"{workers} threads"
version = getattr(package, "__version__", "?")
print(json.dumps({"version": version, "add": add, "drain": best, "chosen": chosen}))
