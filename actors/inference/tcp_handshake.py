"""How an inference server and a client of another host know each other before the first request goes over TCP.

    server   mark | nonce
    client   mark | number of the client u4 | nonce | proof
    server   proof

A proof is a digest of both nonces and the number under the server's token, which the client has from Ray, whose calls
have a token of their own.  So the token never travels here, and neither side serves a stranger.
Source: RFC 2104 (HMAC).
"""

import hmac
import secrets
import struct
from typing import NamedTuple

MARK = b"SHUSTCP1"
NONCE_BYTES = 32
PROOF_BYTES = 32
GREETING = struct.Struct(f"<8s{NONCE_BYTES}s")
REPLY = struct.Struct(f"<8sI{NONCE_BYTES}s{PROOF_BYTES}s")
REQUEST_HEAD = struct.Struct("<II")  # bytes, ticket
ANSWER_HEAD = struct.Struct("<III")  # bytes, ticket, status: `common/core/serving/tcp_peer.h`


class TcpAddress(NamedTuple):
    """Where a server listens, and how a client proves that it may."""

    host: str
    port: int
    token: str
    name: str = ""  # in the server's certificate; empty: nothing is encrypted
    authority: str = ""  # certificate of the authority that signed it, PEM

    def __repr__(self) -> str:
        """Without the token, which belongs into no log."""
        return f"{self.host}:{self.port}"


def new_nonce() -> bytes:
    """Bytes that no handshake had before."""
    return secrets.token_bytes(NONCE_BYTES)


def proof(token: str, side: str, server_nonce: bytes, client_nonce: bytes, client: int) -> bytes:
    """Of `side`, client or server, so that none can be sent back to the other."""
    message = b"".join((side.encode(), server_nonce, client_nonce, client.to_bytes(4, "little")))
    return hmac.digest(token.encode(), message, "sha256")


def is_proof(found: bytes, expected: bytes) -> bool:
    """Compares in a time that says nothing about them."""
    return hmac.compare_digest(found, expected)
