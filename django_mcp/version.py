"""The version of this package, which the build reads here too."""

__version__ = "0.1.0.dev0"
