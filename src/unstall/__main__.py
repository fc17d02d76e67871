"""``python -m unstall``: the command, where the script is not on the path."""

from unstall.commands import main

if __name__ == "__main__":
    main()
