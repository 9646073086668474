"""Events and rows of ``payment_auth_join``.

The state is that of Spark's operators. Bound per account: each transaction until the watermark
is ``after`` beyond it and each authentication until it is ``before`` beyond it, each transaction once more
until its row is due, and an id per event, three times, until the watermark is the allowed lateness beyond it.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, ClassVar, NamedTuple

from stateward.contract.columns import Col, Timestamp
from stateward.contract.stream_settings import MINUTE, StreamSettings

# Kinds of events; all others take part in nothing.
TRANSACTION = "transaction"
AUTHENTICATED = "authenticated"


@dataclass(frozen=True, kw_only=True)
class JoinSettings(StreamSettings):
    """How far an authentication may be from its payment; see docs/streams/payment_auth_join.md."""

    reads_several_topics: ClassVar[bool] = False

    before_ms: int = 2 * MINUTE
    after_ms: int = 2 * MINUTE


class PaymentEvent(NamedTuple):
    """One accepted event.

    Attributes:
        event_id: Identity within the account.
        event_ms: Event time, milliseconds since 1970 UTC.
        account_id: The account.
        kind: What happened.
        amount: With nine decimals, or None when the event names none.
    """

    event_id: str
    event_ms: int
    account_id: str
    kind: str
    amount: Decimal | None


class PaymentAuthentication(NamedTuple):
    """One transaction, with the first authentication around it."""

    payment_id: Annotated[
        str,
        Col(
            "Identity, from the account and the transaction: the same on every run",
            derived_from=("account_id", "transaction_id"),
        ),
    ]
    account_id: Annotated[str, Col("The account", personal=True)]
    transaction_id: Annotated[str, Col("Id of the transaction's event")]
    transaction_ms: Annotated[int, Timestamp("Time of the transaction")]
    amount: Annotated[Decimal | None, Col("Its amount; null if it named none")]
    authentication_id: Annotated[str | None, Col("Id of the authentication's event; null if there was none")]
    authenticated_ms: Annotated[int | None, Timestamp("Time of the authentication; null if there was none")]
