"""The certificate authority of one driver term: its key stays in the driver's memory, its certificate goes to workers.

Certificates are valid from two days before they were made, so that a node whose clock is wrong by a day accepts them.
"""

import datetime
import ipaddress
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = datetime.timedelta(days=2)
VALID = datetime.timedelta(days=3650)  # longer than any run, since no certificate is renewed while it goes on


@dataclass(frozen=True)
class Certificate:
    """What a server shows, and the authority by which clients know it; PEM."""

    name: str  # an address or a name, which clients compare
    authority: str  # certificate of the authority
    certificate: str = field(repr=False)
    key: str = field(repr=False)


class RunAuthority:
    """Signs the certificates of a run's servers."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name_of("Shusaku run")
        builder = _builder(self._name, self._name, self._key.public_key())
        self._certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> str:
        """Its own, for clients; PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name: str) -> Certificate:
        """The certificate of a server that clients reach at this address, or know by this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = (
            _builder(_name_of(name), self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName([_alternative(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                    serialization.NoEncryption())
        return Certificate(name, self.certificate, signed.public_bytes(serialization.Encoding.PEM).decode(),
                           private.decode())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject).issuer_name(issuer).public_key(key).serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED).not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )
