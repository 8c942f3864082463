"""`triggers.json`: its grammar, its printing, and the one mark that we write into it."""
