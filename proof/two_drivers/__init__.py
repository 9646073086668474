"""Two drivers started on one checkpoint, over and over."""
