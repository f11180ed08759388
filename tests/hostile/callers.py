"""Those who call: certificates that an authority signs, and certificates that somebody has forged, bent or kept too long.

Each is a folder as `rivulet ca issue` makes it: node.crt, node.key, authority.crt.
"""
import os
import pathlib
import shutil
import subprocess

# By the authority's own command, or by OpenSSL with the authority's key: what a careless or an attacked authority could sign.
CONFIG = """
[ca]
default_ca = a
[a]
database = {index}
serial = {serial}
new_certs_dir = {folder}
certificate = {certificate}
private_key = {key}
default_md = {digest}
policy = any
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = dn
[dn]
[v3]
basicConstraints = critical,{basic}
keyUsage = critical,{usage}
extendedKeyUsage = {purpose}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{name}
"""


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (arguments, done.stderr)


class Callers:
    """Certificates in one folder. `run` starts the program: run("ca", …)."""

    def __init__(self, folder, run):
        self.folder, self.run = pathlib.Path(folder), run

    def issue(self, name, folder, *more):
        self.run("ca", "issue", name, "--out", folder, *more)

    def forge(self, folder, uri, *, signer="ca/authority", begin="20200101000000Z", end="20491231235959Z", basic="CA:FALSE",
              usage="digitalSignature", purpose="clientAuth", digest="sha256", key=("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
              names=None):
        """`uri`: the name in it; `names`: all alternative names instead."""
        at = self.folder / folder
        at.mkdir()
        (at / "index").write_text("")
        (at / "serial").write_text(os.urandom(8).hex())
        names = [f"URI:{uri}"] if names is None else names
        (at / "config").write_text(CONFIG.format(
            index=at / "index", serial=at / "serial", folder=at, certificate=self.folder / f"{signer}.crt",
            key=self.folder / f"{signer}.key", digest=digest, basic=basic, usage=usage, purpose=purpose,
            name="subjectAltName = " + ",".join(names) if names else ""))
        openssl("req", "-new", *key, "-nodes", "-keyout", at / "node.key", "-out", at / "csr", "-subj", "/CN=a", "-config", at / "config")
        openssl("ca", "-batch", "-notext", "-config", at / "config", "-extensions", "v3", "-in", at / "csr", "-out", at / "node.crt",
                "-startdate", begin, "-enddate", end)
        shutil.copy(self.folder / "ca/authority.crt", at / "authority.crt")

    def borrow(self, folder, certificate, key):
        """A certificate with a key that may be another's."""
        at = self.folder / folder
        at.mkdir()
        shutil.copy(self.folder / certificate, at / "node.crt")
        shutil.copy(self.folder / key, at / "node.key")
        shutil.copy(self.folder / "ca/authority.crt", at / "authority.crt")

    def make_those_refused_by_their_certificate(self):
        """Each is refused at the handshake, or as it asks; their names are in TURNED_AWAY."""
        self.run("ca", "init", "--name", "others", "--ca", "other")
        self.run("ca", "init", "--name", "study", "--ca", "twin")  # of the same name
        self.issue("client/a", "stranger", "--ca", "other")
        self.issue("client/a", "namesake", "--ca", "twin")
        self.issue("client/gone", "revoked")
        self.run("ca", "revoke", "client/gone", "--reason", "key-compromise")
        self.forge("expired", "rivulet:client/a", end="20250101000000Z")
        self.forge("early", "rivulet:client/a", begin="20480101000000Z")
        self.forge("nameless", "", names=[])
        self.forge("other-scheme", "https://client/a")
        self.forge("other-role", "rivulet:root/a")
        self.forge("shouting", "rivulet:CLIENT/a")
        self.forge("two-names", "", names=["URI:rivulet:client/a", "URI:rivulet:operator/ann"])
        self.forge("empty-name", "rivulet:client/")
        self.forge("control-name", "rivulet:client/a%0Ab")
        self.forge("long-name", "rivulet:client/" + "a" * 300)
        self.forge("servers-purpose", "rivulet:client/a", purpose="serverAuth")
        self.forge("other-purpose", "rivulet:client/a", purpose="emailProtection")
        self.forge("of-a-client", "rivulet:operator/ann", signer="a/node")
        self.forge("authority-itself", "rivulet:client/a", basic="CA:TRUE", usage="keyCertSign,digitalSignature")
        self.forge("of-that", "rivulet:client/a", signer="authority-itself/node")
        self.forge("weak-key", "rivulet:client/a", key=("-newkey", "rsa:1024"))
        self.forge("weak-digest", "rivulet:client/a", digest="sha1")


TURNED_AWAY = ("stranger", "namesake", "revoked", "expired", "early", "nameless", "other-scheme", "other-role", "shouting", "two-names",
               "empty-name", "control-name", "long-name", "servers-purpose", "other-purpose", "of-a-client", "of-that",
               "weak-key", "weak-digest")
