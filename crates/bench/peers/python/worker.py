"""Python's libraries, as workers of the benchmark: worker.py LIBRARY TASK. Each says that it is ready, and takes a turn of so
many milliseconds for every line that it reads. One caller blocks; several are asyncio tasks."""

import asyncio
import json
import sys
import time

import pottery
import redis
import redis.asyncio

library, task = sys.argv[1], json.loads(sys.argv[2])
ttl = task["ttl_ms"] / 1000


def blocking_lock(servers, name):
    if library == "redis-py":
        return servers[0].lock(name, timeout=ttl)
    return pottery.Redlock(key=name, masters=servers, auto_release_time=ttl)


def asyncio_lock(servers, name):
    if library == "redis-py":
        return servers[0].lock(name, timeout=ttl)
    return pottery.AIORedlock(key=name, masters=servers, auto_release_time=ttl)


def figures(took, failures, seconds):
    took.sort()
    told = {"cycles_per_second": len(took) / seconds}
    if took:
        told["p50_us"] = took[round((len(took) - 1) * 0.5)] * 1e6
        told["p99_us"] = took[round((len(took) - 1) * 0.99)] * 1e6
    if failures:
        told["failures"] = failures
    return told


def one_caller(servers, length):
    took, failures, begun = [], 0, time.perf_counter()
    while (asked := time.perf_counter()) < begun + length:
        try:
            lock = blocking_lock(servers, "python/0")
            if not lock.acquire():
                raise redis.RedisError("not acquired")
            lock.release()
            took.append(time.perf_counter() - asked)
        except Exception:
            failures += 1
    return figures(took, failures, time.perf_counter() - begun)


async def many_callers(servers, length):
    took, failed, begun = [], [], time.perf_counter()

    async def call(name):
        while (asked := time.perf_counter()) < begun + length:
            try:
                lock = asyncio_lock(servers, name)
                if not await lock.acquire():
                    raise redis.RedisError("not acquired")
                await lock.release()
                took.append(time.perf_counter() - asked)
            except Exception:
                failed.append(name)

    await asyncio.gather(*(call(f"python/{caller}") for caller in range(task["callers"])))
    return figures(took, len(failed), time.perf_counter() - begun)


def main():
    print("ready", flush=True)
    if task["callers"] == 1:
        servers = [redis.Redis.from_url(url) for url in task["nodes"]]
        for line in sys.stdin:
            print(json.dumps(one_caller(servers, int(line) / 1000)), flush=True)
        return
    with asyncio.Runner() as runner:

        async def connect():
            return [redis.asyncio.Redis.from_url(url) for url in task["nodes"]]

        servers = runner.run(connect())
        for line in sys.stdin:
            print(json.dumps(runner.run(many_callers(servers, int(line) / 1000))), flush=True)


main()
