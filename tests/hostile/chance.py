"""Chance and time of the hostile tests.

RIVULET_HOSTILE_SEED decides every case, and a test prints it. RIVULET_HOSTILE_SECONDS is how long each test searches. A case is drawn
from the seed and its number alone. A failure names both, and RIVULET_HOSTILE_CASE repeats that case.
"""
import os
import random
import time

SEED = int(os.environ.get("RIVULET_HOSTILE_SEED", "1"))


def seconds(default):
    return float(os.environ.get("RIVULET_HOSTILE_SECONDS", default))


def cases(what, seconds, most=10**9):
    """(number, chance) until the time is over; at least one."""
    only = os.environ.get("RIVULET_HOSTILE_CASE")
    if only:
        yield int(only), of(what, int(only))
        return
    end = time.monotonic() + seconds
    number = 0
    while number < most and (number == 0 or time.monotonic() < end):
        yield number, of(what, number)
        number += 1
    print(f"{what}: {number} cases of seed {SEED}", flush=True)


def of(what, number):
    return random.Random(f"{SEED}/{what}/{number}")


def mutated(content, chance, changes=4):
    """Bytes changed, cut off, put in, left out, repeated."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, changes)):
        at = chance.randrange(len(damaged) + 1)
        kind = chance.randrange(7)
        if kind == 0 and at < len(damaged):
            damaged[at] = chance.choice([0, 1, 10, 13, 32, 47, 92, 127, 128, 255])
        elif kind == 1 and at < len(damaged):
            damaged[at] ^= 1 << chance.randrange(8)
        elif kind == 2 and chance.random() < 0.3:
            del damaged[at:]
        elif kind == 3:
            damaged[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 4:
            del damaged[at:at + chance.randint(1, 8)]
        elif kind == 5:
            damaged[at:at] = damaged[at:at + chance.randint(1, 64)]
        elif len(damaged) >= 8:
            at = min(at, len(damaged) - 8)
            damaged[at:at + 4] = chance.choice([b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\xff\xff\x7f\x7f", b"\xff\xff\xff\xff",
                                                b"\1\0\0\0", b"\0\0\0\x80", b"\xff\xff\xff\x7f"])
    return bytes(damaged)
