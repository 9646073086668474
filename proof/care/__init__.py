"""The care of a state over a month that passes in a second: the load grows eightfold, and falls again."""
