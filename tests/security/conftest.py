"""Fixtures of the controller's tests that attacks need too."""

from tests.controller.conftest import receiver

__all__ = ["receiver"]
