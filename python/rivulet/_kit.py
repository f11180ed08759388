"""A start-up kit (`rivulet ca kit client/NAME`): a client's certificate, its authority and its coordinator's
address."""

import os
import re
import shlex
import ssl
import urllib.parse
from typing import Dict, Optional

from rivulet._errors import RivuletError
from rivulet._files import PathLike

# A subject's alternative name of the kind URI (RFC 5280, GeneralName [6]): its length, as DER has it, and its text.
_URI = re.compile(rb"\x86(?:([\x00-\x7f])|\x81(.)|\x82(..))(?=rivulet:client/)", re.S)


class Kit:
    """The folder of a kit, read once.

    Attributes
    ----------
    name : str
        The client's, which its certificate bears.
    coordinator : str or None
        Where ``site.conf`` says that it listens.
    certificate, key, authority : bytes
        As PEM.
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = os.fspath(folder)
        if not os.path.isdir(self.folder):
            raise RivuletError(
                f"there is no kit '{self.folder}'; it is the folder that `rivulet ca kit client/NAME` packs, unpacked"
            )
        self.certificate, self.key, self.authority = map(self._read, ("node.crt", "node.key", "authority.crt"))
        self.name = self._name()
        self.coordinator: Optional[str] = self._site().get("RIVULET_COORDINATOR")

    def check(self) -> None:
        """Checks that a connection can use this kit: gRPC does not report an unusable key and never connects.
        RivuletError: the reason."""

        def no_password() -> str:
            raise ValueError("the key is encrypted; an unattended client needs one without a password")

        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=self.authority.decode("ascii"))
            certificate, key = (os.path.join(self.folder, name) for name in ("node.crt", "node.key"))
            context.load_cert_chain(certificate, key, no_password)
        except (OSError, ValueError) as error:  # also of ssl
            raise RivuletError(f"kit '{self.folder}': its certificates are of no use: {error}") from error

    def _read(self, name: str) -> bytes:
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                return file.read()
        except OSError as error:
            raise RivuletError(f"kit '{self.folder}': cannot read '{name}': {error.strerror}") from error

    def _name(self) -> str:
        try:
            # The first certificate; behind it there may be others, up to the authority's.
            text = self.certificate.decode("ascii")
            certificate = ssl.PEM_cert_to_DER_cert(text[: text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)])
        except ValueError as error:
            raise RivuletError(f"kit '{self.folder}': 'node.crt' is no certificate") from error
        found = _URI.search(certificate)
        if found is not None:
            length = int.from_bytes(found[1] or found[2] or found[3], "big")
            uri = certificate[found.end() : found.end() + length].decode("ascii", "replace")
            return urllib.parse.unquote(uri[len("rivulet:client/") :])
        raise RivuletError(f"kit '{self.folder}': 'node.crt' is no client's certificate; make one of client/NAME")

    def _site(self) -> Dict[str, str]:
        """The settings of site.conf, a shell's file of assignments."""
        settings = {}
        if os.path.exists(os.path.join(self.folder, "site.conf")):
            for line in self._read("site.conf").decode(errors="replace").splitlines():
                key, equals, value = line.partition("=")
                if equals and re.fullmatch(r"[A-Z_]+", key):
                    try:
                        settings[key] = "".join(shlex.split(value))
                    except ValueError as error:  # a quotation that does not end
                        raise RivuletError(f"kit '{self.folder}': 'site.conf' sets {key} to no word: {error}") from error
        return settings
