"""The commands: one module each, with ``add_parser(subparsers)`` and ``run(options)``."""
