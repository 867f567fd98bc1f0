"""The sub-commands of `dueline`, one module each; `dueline.cli` says what a module has to offer."""
