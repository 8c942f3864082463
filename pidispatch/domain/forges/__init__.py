"""What the forges are, one module for each: their words, their habits, and the names that belong to them."""
