"""`python -m proof.care`: writes docs/images/state-care-month.svg."""

from __future__ import annotations

from proof.care.chart import write
from proof.care.month import DAYS, eightfold, simulate
from stateward.project.settings import CHECKOUT

if __name__ == "__main__":
    write(simulate(eightfold, DAYS), CHECKOUT / "docs" / "images" / "state-care-month.svg")
