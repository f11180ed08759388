"""Header blocks of HTTP/2 (HPACK, RFC 7541), as far as a gRPC client needs them.

Blocks are written without compression, and read without a dynamic table: a client that announces a table of size 0 is
sent no entry of one. Huffman codes are read, since what stands between a client and its coordinator may write them.
"""

import functools
from typing import Dict, Iterable, List, Tuple

# Appendix A: the static table, each entry's name and value.
_STATIC = [
    (name, value.replace("_", " "))
    for name, _, value in (
        entry.partition("=")
        for entry in (
            ":authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 "
            ":status=204 :status=206 :status=304 :status=400 :status=404 :status=500 accept-charset "
            "accept-encoding=gzip,_deflate accept-language accept-ranges accept access-control-allow-origin age allow "
            "authorization cache-control content-disposition content-encoding content-language content-length "
            "content-location content-range content-type cookie date etag expect expires from host if-match "
            "if-modified-since if-none-match if-range if-unmodified-since last-modified link location max-forwards "
            "proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie "
            "strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    )
]
# Appendix B: how many bits the code of each byte has, and last that of the end; "a" is 5. Codes of one length follow
# each other in the order of their bytes, and shorter ones come first, so that the lengths tell the codes.
_LENGTHS = (
    "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhf"
    "ibccccccccccccccccccccccdcdioijbkabababbbaccbbbabcbaabccccckgjix"
    "prpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrqsrssprrrsrrs"
    "vvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwv"
    "z"
)
_END = 256


class BadHeaders(Exception):
    """A header block that is none."""


def _number(prefix_bits: int, first: int, value: int) -> bytes:
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([first | value])
    out = bytearray([first | most])
    value -= most
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(headers: Iterable[Tuple[str, str]]) -> bytes:
    """A block of literals that are in no table."""
    out = []
    for pair in headers:
        out.append(b"\0")
        for text in pair:
            content = text.encode("latin-1")
            out.append(_number(7, 0, len(content)) + content)
    return b"".join(out)


@functools.lru_cache(maxsize=None)
def _codes() -> Dict[Tuple[int, int], int]:
    """The byte of each (bits, code)."""
    codes = {}
    code = bits = 0
    for length, symbol in sorted((ord(letter) - ord("a") + 5, symbol) for symbol, letter in enumerate(_LENGTHS)):
        code <<= length - bits
        bits = length
        codes[bits, code] = symbol
        code += 1
    return codes


def _unpacked(packed: bytes) -> bytes:
    codes, out = _codes(), bytearray()
    code = bits = 0
    for byte in packed:
        for shift in range(7, -1, -1):
            code, bits = code << 1 | byte >> shift & 1, bits + 1
            symbol = codes.get((bits, code))
            if symbol == _END or bits > 30:
                raise BadHeaders("a Huffman code that is none")
            if symbol is not None:
                out.append(symbol)
                code = bits = 0
    if bits > 7 or code != (1 << bits) - 1:
        raise BadHeaders("a text that ends within a Huffman code")
    return bytes(out)


class _Block:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self._content):
            raise BadHeaders("it is cut off")
        self.at += 1
        return self._content[self.at - 1]

    def number(self, prefix_bits: int, first: int) -> int:
        most = (1 << prefix_bits) - 1
        value = first & most
        if value < most:
            return value
        shift = 0
        while True:
            byte = self.byte()
            value += (byte & 0x7F) << shift
            shift += 7
            if shift > 28:
                raise BadHeaders("a number too large")
            if byte < 0x80:
                return value

    def text(self) -> str:
        first = self.byte()
        size = self.number(7, first)
        if size > len(self._content) - self.at:
            raise BadHeaders("it is cut off")
        content = self._content[self.at : self.at + size]
        self.at += size
        return (_unpacked(content) if first & 0x80 else content).decode("latin-1")


def _entry(index: int) -> Tuple[str, str]:
    if not 0 < index <= len(_STATIC):
        raise BadHeaders(f"entry {index} of a table of {len(_STATIC)}")
    return _STATIC[index - 1]


def decode(content: bytes) -> List[Tuple[str, str]]:
    """The headers of a block. BadHeaders: it is none, or names what a table of size 0 has not."""
    block, headers = _Block(content), []
    while block.at < len(content):
        first = block.byte()
        if first & 0x80:
            headers.append(_entry(block.number(7, first)))
        elif first & 0xE0 == 0x20:
            if block.number(5, first) > 0:
                raise BadHeaders("a table larger than was allowed")
        else:  # a literal, whether it is to be kept or not: nothing fits into a table of size 0
            index = block.number(6 if first & 0x40 else 4, first)
            name = _entry(index)[0] if index else block.text()
            headers.append((name, block.text()))
    return headers
