"""The error tree. Every message says what was read, what was wrong and what would be right.

RooflensError                 anything rooflens refuses; the command line exits with status 2
├── InputError                a file, an option or a value that cannot be used
│   ├── ConfigError           a model config that is unreadable or contradicts itself
│   ├── HardwareError         an accelerator file that is unreadable or incomplete
│   └── UnitError             a figure whose unit is missing or not known
├── UnknownNameError          a name that stands for nothing, or for several things
│   ├── UnknownModelError
│   ├── UnknownHardwareError
│   └── UnknownArchitectureError
├── UnknownPeakError          a part without a published peak for the dtype asked for
└── MissingExtraError         an optional dependency that is not installed
"""

from __future__ import annotations


class RooflensError(Exception):
    """Base of every error that rooflens raises on purpose."""


class InputError(RooflensError):
    """A file, an option or a value that cannot be used."""


class ConfigError(InputError):
    """A model config that is unreadable, incomplete or contradicts itself."""


class HardwareError(InputError):
    """An accelerator file that is unreadable or incomplete."""


class UnitError(InputError):
    """A figure whose unit is missing or not known."""


class UnknownNameError(RooflensError):
    """A name that stands for nothing, or for several things."""


class UnknownModelError(UnknownNameError):
    """A model name that is neither a path nor bundled."""


class UnknownHardwareError(UnknownNameError):
    """An accelerator name that is not known, or names several parts."""


class UnknownArchitectureError(UnknownNameError):
    """A model architecture without a mapping to layer kinds."""


class UnknownPeakError(RooflensError):
    """A part has no published peak for the dtype that was asked for."""


class MissingExtraError(RooflensError):
    """An optional dependency that a request needs is not installed."""
