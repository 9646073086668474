"""A trial of a stream: made-up records at a rate, all of its operators, and its rows on the console."""
