"""Which browser test takes which picture of docs/images.

`make pictures` runs these tests with SCREENSHOTS=docs/images. A test takes its picture by `keep`, with the
name that the picture has here.
"""

from __future__ import annotations

import sys

SAMPLES = "tests/airflow/web/test_pages_in_browser.py"
"""The tests in this file show made-up data, which the docs say under the pictures."""

_SESSIONS = "tests/e2e/test_user_sessions_pages.py"
_OPERATIONS = "tests/e2e/pages/test_state_operation_pages.py"
_CARE = "tests/e2e/pages/test_state_care_pages.py"

PICTURES = {
    "quality-in-airflow": f"{_SESSIONS}::test_the_quality_overview_opens_from_navigation_and_task",
    "quality-links": f"{_SESSIONS}::test_the_report_opens_from_its_task",
    "quality-overview": f"{SAMPLES}::test_a_week_of_validations_is_shown",
    "quality-table": f"{SAMPLES}::test_a_week_of_validations_is_shown",
    "state-care-question": f"{_CARE}::test_what_a_person_approves_is_made_and_proved",
    "state-dry-run": f"{_OPERATIONS}::test_a_repartition_by_one_click",
    "state-run": f"{_OPERATIONS}::test_a_repartition_by_one_click",
    "streams-failed": f"{SAMPLES}::test_a_day_of_streams_is_shown",
    "streams-healthy": f"{SAMPLES}::test_a_day_of_streams_is_shown",
    "streams-lagging": f"{SAMPLES}::test_a_day_of_streams_is_shown",
}
"""By the name of the picture, without its suffix."""

if __name__ == "__main__":
    sys.stdout.write("\n".join(sorted(set(PICTURES.values()))))
