"""Two drivers started on one checkpoint, again and again."""
