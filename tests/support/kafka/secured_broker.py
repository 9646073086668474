"""Secured brokers: with a password and TLS, and with rights for each user."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stateward.platform.parts.kafka import Broker
from stateward.platform.parts.ports import free_ports
from stateward.project.settings import CHECKOUT, connect_host
from tests.support.waiting import PATIENCE_S, wait_until

USER, PASSWORD = "stateward", "a password; with = and # in it"
ADMIN, ADMIN_PASSWORD = "admin", "another password"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True)
class SecuredBroker(Broker):
    """An embedded broker whose clients log in by SASL over TLS; it talks to itself without."""

    @classmethod
    def in_folder(cls, folder: Path, host: str = "127.0.0.1") -> SecuredBroker:
        """Describe one on free ports of an address."""
        port, controller = free_ports(2)
        return cls(folder, CHECKOUT / "jars" / "kafka", host, port, controller, heap_mb=384)

    @property
    def certificate(self) -> Path:
        """Addresses for clients."""
        return self.folder / "certificate.pem"

    def client(self) -> dict[str, str]:
        """The client settings to log in."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.certificate),
        }

    def write_client_file(self, file: Path, **changes: str) -> None:
        """Write the client settings to a file; `changes` has names with `_` for a dot."""
        changed = {name.replace("_", "."): value for name, value in changes.items()}
        lines = [f"{name} = {value}" for name, value in (self.client() | changed).items()]
        file.write_text("\n".join(["# who we are", "", *lines, ""]))

    def prepare(self) -> None:
        """Create its key and its files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        key, certificate = _self_signed(self.host)
        self.certificate.write_bytes(certificate)
        (self.folder / "keystore.pem").write_bytes(key + certificate)
        super().prepare()

    def properties(self) -> str:
        """The broker's settings, with another listener for its clients."""
        (inner,) = free_ports(1)
        secured = {
            "listeners": f"SASL_SSL://{self.host}:{self.port},INNER://{self.host}:{inner},"
            f"CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"SASL_SSL://{connect_host(self.host)}:{self.port},"
            f"INNER://{connect_host(self.host)}:{inner}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{_PLAIN} required user_{USER}="{PASSWORD}";',
            "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
            "listener.name.sasl_ssl.ssl.keystore.location": self.folder / "keystore.pem",
        }
        return super().properties() + "".join(f"{key}={value}\n" for key, value in secured.items())


@dataclass(frozen=True)
class PasswordBroker(Broker):
    """An embedded broker whose clients, on whatever host, log in by SASL without TLS."""

    def client(self) -> dict[str, str]:
        """The client settings to log in."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def properties(self) -> str:
        """The broker's settings, with another listener for its clients."""
        (inner,) = free_ports(1)
        addresses = f"SASL_PLAINTEXT://{self.host}:{self.port},INNER://{self.host}:{inner}"
        settings = {
            "listeners": f"{addresses},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": (
                "SASL_PLAINTEXT:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{_PLAIN} required user_{USER}="{PASSWORD}";'
            ),
        }
        return super().properties() + "".join(f"{key}={value}\n" for key, value in settings.items())


@dataclass(frozen=True)
class AuthorizingBroker(Broker):
    """An embedded broker on which a user may do what it is granted, and nothing else.

    It creates a topic on the first write or metadata request, as brokers do by default, if the user may.
    """

    @classmethod
    def in_folder(cls, folder: Path) -> AuthorizingBroker:
        """Describe one on free ports."""
        port, controller = free_ports(2)
        return cls(folder, CHECKOUT / "jars" / "kafka", "127.0.0.1", port, controller, heap_mb=384)

    def client(self, user: str = USER) -> dict[str, str]:
        """The client settings to log in."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": user,
            "sasl.password": ADMIN_PASSWORD if user == ADMIN else PASSWORD,
        }

    def write_client_file(self, file: Path) -> None:
        """Write the user's client settings to a file."""
        file.write_text("".join(f"{name} = {value}\n" for name, value in self.client().items()))

    def grant(self, operation: str, topic: str) -> None:
        """Let the user do something to a topic: `READ`, `WRITE`, `DESCRIBE`, ..."""
        # Named, because the request is cancelled when its client is collected.
        admin = self._admin()
        for future in admin.create_acls([_right(operation, topic)]).values():
            future.result()
        # The controller answers before the broker applies the right.
        wait_until(
            lambda: admin.describe_acls(_right(operation, topic, AclBindingFilter)).result(),
            PATIENCE_S,
            f"{operation} on {topic} is granted",
        )

    def _admin(self) -> AdminClient:
        return AdminClient({**self.client(ADMIN), "bootstrap.servers": f"localhost:{self.port}"})

    def properties(self) -> str:
        """The broker's settings, with another listener for its clients; the internal one is trusted."""
        (inner,) = free_ports(1)
        users = " ".join(
            f'user_{name}="{password}"' for name, password in ((USER, PASSWORD), (ADMIN, ADMIN_PASSWORD))
        )
        authorizing = {
            "listeners": f"SASL_PLAINTEXT://{self.host}:{self.port},INNER://{self.host}:{inner},"
            f"CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"SASL_PLAINTEXT://localhost:{self.port},INNER://localhost:{inner}",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INNER:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
            "auto.create.topics.enable": "true",
        }
        return super().properties() + "".join(f"{key}={value}\n" for key, value in authorizing.items())


def _right(operation: str, topic: str, kind: type[Any] = AclBinding) -> Any:
    return kind(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _self_signed(host: str) -> tuple[bytes, bytes]:
    """Key and certificate of a server called localhost, and by its address."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address(host))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)
