"""Checks a proof of `rivulet runs export RUN --proof FOLDER` without Rivulet: python check_proof.py FOLDER [AUTHORITY.crt [HEAD]]

Needs the package `cryptography` from version 38 on. The bytes are those of docs/internals/formats.md, "Records of versions"."""
import base64
import datetime
import hashlib
import json
import pathlib
import struct
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

TYPE = "application/vnd.in-toto+json"


def sha256(*pieces):
    return hashlib.sha256(b"".join(pieces)).digest()


def root(leaves):
    """Of RFC 9162, 2.1.1: divided at the largest power of two below the number of leaves."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256()
    middle = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\1", root(leaves[:middle]), root(leaves[middle:]))


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what} is {found}, and {expected} was expected")


def limit(certificate, side):
    """An end of the certificate's validity; before version 42 of the package it has no time zone."""
    name = f"not_valid_{side}"
    return getattr(certificate, f"{name}_utc", None) or getattr(certificate, name).replace(tzinfo=datetime.timezone.utc)


def check_signature(where, envelope, payload, made_ms, authority):
    """The signature is by the certificate beside it; the authority has issued that for a coordinator, valid on the day."""
    for one in envelope["signatures"]:
        certificate = x509.load_pem_x509_certificate(one["cert"].encode())
        signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)
        certificate.public_key().verify(base64.b64decode(one["sig"]), signed, ec.ECDSA(hashes.SHA256()))
        public = certificate.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        expect(f"{where} keyid", one["keyid"], sha256(public).hex())
        if authority is not None:
            expect(f"{where} issuer", certificate.issuer, authority.subject)
            authority.public_key().verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            roles = [uri.split(":")[1].split("/")[0] for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
            expect(f"{where} role", roles, ["coordinator"])
            made = datetime.datetime.fromtimestamp(made_ms / 1000, datetime.timezone.utc)
            expect(f"{where} valid", limit(certificate, "before") <= made <= limit(certificate, "after"), True)
    expect(f"{where} signatures", len(envelope["signatures"]), 1 if authority else len(envelope["signatures"]))


def check_records(lines, authority):
    """{version: (predicate, digest of the model, digest of the record)} of a chain."""
    records, digests = {}, []
    for line in lines:
        envelope = json.loads(line)
        payload = base64.b64decode(envelope["payload"])
        statement = json.loads(payload)
        predicate, model = statement["predicate"], statement["subject"][0]["digest"]["rivuletModel"]
        where = f"record of version {predicate['version']}:"
        expect(where + " payloadType", envelope["payloadType"], TYPE)
        expect(where + " previous", predicate["previous"], digests[-1].hex() if digests else None)
        expect(where + " earlier", predicate["earlier"], len(digests))
        expect(where + " earlierRoot", predicate["earlierRoot"], root([sha256(b"\0", digest) for digest in digests]).hex())
        if records:
            before, base, _ = records[max(records)]
            expect(where + " base", predicate["base"], base)
            for name, value in {"run": before["run"], "version": before["version"] + 1, "configuration": before["configuration"]}.items():
                expect(f"{where} {name}", predicate[name], value)
        check_signature(where, envelope, payload, predicate["madeMs"], authority)
        digests.append(sha256(payload))
        records[predicate["version"]] = (predicate, model, digests[-1].hex())
    return records


def check_model(path, records):
    """The model's digest is made of names, types, shapes and values of its tensors; a server's own vectors are no part of it."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, values = json.loads(data[8:8 + size]), data[8 + size:]
    metadata = header.pop("__metadata__")
    predicate, model, digest = records[int(metadata["rivulet.round"])]
    expect(f"{path.name}: rivulet.record", metadata["rivulet.record"], digest)
    segments = json.loads(metadata["rivulet.segments"])
    hashed = hashlib.sha256(b"rivulet model over a base\n" + bytes.fromhex(metadata["rivulet.base"]) if "rivulet.base" in metadata else b"")
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if segments[name] != "server":
            shape, dtype = tensor["shape"], tensor["dtype"].encode()
            hashed.update(struct.pack("<I", len(name.encode())) + name.encode() + struct.pack("<B", len(dtype)) + dtype)
            hashed.update(struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
            hashed.update(values[slice(*tensor["data_offsets"])])
    expect(f"{path.name}: model of version {predicate['version']}", hashed.hexdigest(), model)


folder, authority = pathlib.Path(sys.argv[1]), None
if len(sys.argv) > 2:
    authority = x509.load_pem_x509_certificate(pathlib.Path(sys.argv[2]).read_bytes())
records = check_records((folder / "records.jsonl").read_text().splitlines(), authority)
newest = records[max(records)]
for line in (folder / "updates.jsonl").read_text().splitlines():
    updates = json.loads(line)
    leaves = [bytes.fromhex(leaf) for leaf in updates["leaves"]]
    expect(f"updates of version {updates['version']}", root(leaves).hex(), records[updates["version"]][0]["updatesRoot"])
if (folder / "plan").exists():
    expect("plan", sha256((folder / "plan").read_bytes()).hex(), newest[0]["plan"])
models = sorted((folder / "models").glob("*.safetensors"))
for path in models:
    check_model(path, records)
expect("head", newest[2], sys.argv[3] if len(sys.argv) > 3 else newest[2])
print(f"run {newest[0]['run']}: {len(records)} records and {len(models)} models are as they should be; head {newest[2]}")
