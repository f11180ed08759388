"""A client of secure aggregation written from docs/internals/secure-aggregation.md alone, with cryptography and NumPy.

    python3 independent_client.py DRIVER

DRIVER (peer_driver.cc) plays the coordinator and all other clients. It writes lines of JSON: the client's setup, then each step's input. It
is answered by a line in hexadecimal digits each, and exits with 0 if the sum is equal to the plain one, bit by bit.
Exits with 77 where a library is missing.
"""
import hashlib
import json
import math
import pathlib
import secrets
import subprocess
import sys

try:
    import numpy as np
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "scripts"))
from secagg_graphs import draw_graph  # noqa: E402

RAW = (serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption())
RAW_PUBLIC = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def u32(value):
    return value.to_bytes(4, "little")


# Protocol buffers: every field here is a length and bytes.
def varint(value):
    made = b""
    while value >= 128:
        made += bytes([value & 127 | 128])
        value >>= 7
    return made + bytes([value])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value if value else b""


def fields(message):
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag, size = number(), number()
        found.append((tag >> 3, message[at:at + size]))
        at += size
    return found


def one(message, number):
    return next((value for at, value in fields(message) if at == number), b"")


def every(message, number):
    return [value for at, value in fields(message) if at == number]


def members_of(set_bytes, count):
    return [i for i in range(count) if set_bytes[i // 8] >> i % 8 & 1]


# GF(2^128) as integers.
def product(a, b):
    made = 0
    while b:
        if b & 1:
            made ^= a
        b >>= 1
        a = a << 1 ^ (0x87 | 1 << 128 if a >> 127 else 0)
    return made


def shares_of(secret, threshold, numbers):
    shares = [b""] * len(numbers)
    for half in range(2):
        coefficients = [int.from_bytes(secret[16 * half:16 * half + 16], "big")]
        coefficients += [secrets.randbits(128) for _ in range(threshold - 1)]
        for i, x in enumerate(numbers):
            value = 0
            for coefficient in reversed(coefficients):
                value = product(value, x) ^ coefficient
            shares[i] += value.to_bytes(16, "big")
    return shares


# k and t by exact integers.
def graph_shape(n, colluding, dropped):
    def tail(marked, k, counts):
        return sum(math.comb(marked, x) * math.comb(n - 1 - marked, k - x) for x in counts)

    for k in range(2, (n - 1) // 2 + 1, 2) if n >= 100 else ():
        ways = math.comb(n - 1, k)
        for t in range(1, k + 1):
            if 2 * t - k < 1 and colluding:
                continue
            private = n * tail(colluding, k, range(max(2 * t - k, 0), k + 1)) << 128 < ways
            correct = n * tail(n - 1 - dropped, k, range(t)) << 30 < ways
            if private and correct:
                return k, t, False
    return n - 1, 2 * n // 3 + 1, True


def derive(secret, info):
    return HKDF(hashes.SHA256(), 32, None, info).derive(secret)


def mask_words(key, count, bits):
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(count * bits // 8))
    return np.frombuffer(stream, f"<u{bits // 8}")


class Client:
    def __init__(self, setup):
        self.setup = setup
        self.key = serialization.load_pem_private_key(setup["key"].encode(), None)
        run = setup["run"].encode()
        self.session = hashlib.sha256(
            b"rivulet secagg 1 session" + u32(len(run)) + run + bytes.fromhex(setup["plan"]) + bytes.fromhex(setup["model"])
            + setup["version"].to_bytes(8, "little") + u32(setup["attempt"])).digest()

    def sign(self, data):
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))

    def keys(self, _):
        self.channel, self.mask = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        public = [key.public_key().public_bytes(*RAW_PUBLIC) for key in (self.channel, self.mask)]
        certificate = x509.load_pem_x509_certificate(self.setup["certificate"].encode())
        self.public = public
        return (field(1, public[0]) + field(2, public[1]) + field(3, certificate.public_bytes(serialization.Encoding.DER))
                + field(4, self.sign(b"rivulet secagg 1 keys" + self.session + public[0] + public[1])))

    def shares(self, message):
        members = [(one(member, 1), one(member, 2), one(member, 3)) for member in every(message, 1)]
        names = [member[0] for member in members]
        assert names == sorted(set(names)), "members out of order or twice"
        self.members, n = members, len(members)
        self.own = names.index(self.setup["name"].encode())
        assert list(members[self.own][1:]) == self.public, "other keys of this client"
        self.cohort = hashlib.sha256(
            b"rivulet secagg 1 cohort" + self.session + u32(n)
            + b"".join(u32(len(name)) + name + channel + mask for name, channel, mask in members)).digest()
        k, self.threshold, complete = graph_shape(n, min(self.setup["max_colluding"], n),
                                                  math.floor(self.setup["drop_out"] * n))
        if complete:
            self.neighbours = [i for i in range(n) if i != self.own]
        else:
            pairs = draw_graph(self.cohort, n, k)
            self.neighbours = sorted(a + b - self.own for a, b in pairs if self.own in (a, b))
        self.holders = sorted(self.neighbours + ([self.own] if complete else []))
        vouchers = every(message, 2)
        assert len(vouchers) == len(self.neighbours) == k, "another number of neighbours"
        self.verifiers = {self.own: self.key.public_key()}
        for i, voucher in zip(self.neighbours, vouchers):
            certificate = x509.load_der_x509_certificate(one(voucher, 1))
            self.verifiers[i] = certificate.public_key()
            self.verifiers[i].verify(one(voucher, 2), b"rivulet secagg 1 keys" + self.session + members[i][1] + members[i][2],
                                     ec.ECDSA(hashes.SHA256()))
        self.agreed = {i: (self.channel.exchange(X25519PublicKey.from_public_bytes(members[i][1])),
                           self.mask.exchange(X25519PublicKey.from_public_bytes(members[i][2]))) for i in self.neighbours}
        self.seed = secrets.token_bytes(32)
        numbers = [i + 1 for i in self.holders]
        parts = zip(self.holders, shares_of(self.seed, self.threshold, numbers),
                    shares_of(self.mask.private_bytes(*RAW), self.threshold, numbers))
        self.held, sealed = {}, b""
        for i, seed_share, key_share in parts:
            if i == self.own:
                self.held[i] = seed_share + key_share
                continue
            info = self.seal_info(self.own, i)
            sealed += AESGCM(derive(self.agreed[i][0], info)).encrypt(bytes(12), seed_share + key_share, info)
        return field(1, hashlib.sha256(self.seed).digest()) + field(2, sealed)

    def seal_info(self, sender, recipient):
        return b"rivulet secagg 1 seal" + self.cohort + b"\x01" + u32(sender) + u32(recipient)

    def masked(self, message):
        sealed, senders = one(message, 2), members_of(one(message, 1), len(self.neighbours))
        for place, sender in enumerate(senders):
            i = self.neighbours[sender]
            info = self.seal_info(i, self.own)
            self.held[i] = AESGCM(derive(self.agreed[i][0], info)).decrypt(bytes(12), sealed[80 * place:80 * place + 80], info)
        assert len(self.held) >= self.threshold, "too few shared"
        bits = self.setup["word_bits"]
        words = np.frombuffer(bytes.fromhex(self.setup["words"]), f"<u{bits // 8}").copy()
        words += mask_words(derive(self.seed, b"rivulet secagg 1 self" + self.cohort + u32(self.own)), len(words), bits)
        for i in self.held:
            if i == self.own:
                continue
            low, high = min(i, self.own), max(i, self.own)
            mask = mask_words(derive(self.agreed[i][1], b"rivulet secagg 1 pair" + self.cohort + u32(low) + u32(high)),
                              len(words), bits)
            words = words + mask if self.own == low else words - mask
        return words.tobytes()

    def agree(self, message):
        self.survivors = one(message, 1)
        self.alive = members_of(self.survivors, len(self.members))
        assert self.own in self.alive and len(self.alive) >= self.setup["min_survivors"], "a set without this client, or too small"
        return field(1, self.sign(b"rivulet secagg 1 survivors" + self.cohort + self.survivors))

    def reveal(self, message):
        signers = [self.holders[i] for i in members_of(one(message, 1), len(self.holders))]
        signatures = every(message, 2)
        for signer, signature in zip(signers, signatures, strict=True):
            assert signer in self.alive
            self.verifiers[signer].verify(signature, b"rivulet secagg 1 survivors" + self.cohort + self.survivors,
                                          ec.ECDSA(hashes.SHA256()))
        assert len(signers) >= self.threshold, "too few signed"
        shares = b"".join(self.held[i][:32] if i in self.alive else self.held[i][32:] for i in sorted(self.held))
        return field(1, shares)


def take_part(driver, arguments):
    with subprocess.Popen([driver, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        client = Client(json.loads(process.stdout.readline()))
        steps = [client.keys, client.shares, client.masked, client.agree, client.reveal]
        for step, line in zip(steps, process.stdout):
            process.stdin.write(step(bytes.fromhex(json.loads(line)["input"])).hex() + "\n")
            process.stdin.flush()
        process.stdin.close()
        return process.wait()


def main():
    for arguments in (["7", "0", "32"], ["7", "1", "64"], ["120", "3", "32"]):
        result = take_part(sys.argv[1], arguments)
        print(f"members, colluding, bits {arguments}: {'equal' if result == 0 else f'exit {result}'}")
        if result != 0:
            sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except InvalidSignature as error:
        sys.exit(f"a signature does not verify: {error}")
