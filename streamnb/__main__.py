"""`python -m streamnb`: the command line."""

from streamnb.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
