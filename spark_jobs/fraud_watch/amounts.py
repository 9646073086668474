"""Amounts as whole millionths, rounded half up. Pure."""

from decimal import ROUND_HALF_UP, Decimal

from spark_jobs.fraud_watch.model import MICROS

# Below it a product with a million is off by less than 2**-12, so that only products which look like a half
# have to be computed exactly.
_SHORT_CUT = 2.0**40


def to_micros(amount: int | float) -> int:
    """An amount in millionths, rounded half up from its decimal text.

    The text is what was sent, as long as that had no more than 17 significant digits; of longer ones it is
    the shortest text of the nearest double.

    Args:
        amount: The number as it was decoded, not negative and finite.
    """
    if isinstance(amount, int):
        return amount * MICROS
    scaled = amount * MICROS
    if scaled < _SHORT_CUT:
        nearest = int(scaled + 0.5)
        if -0.25 < scaled - nearest < 0.25:
            return nearest
    return int(Decimal(repr(amount)).scaleb(6).to_integral_value(ROUND_HALF_UP))
