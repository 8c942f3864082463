"""`python -m pidispatch` is `pidispatch`."""

from pidispatch.entrypoints.cli import main

if __name__ == "__main__":
    main()
