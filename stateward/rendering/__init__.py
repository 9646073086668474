"""What the pages of both floors share: units, charts, templates, styles. Imports nothing of ours."""
