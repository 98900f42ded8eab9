"""The former name of `haltline.detectors.framework.base`, for packages with detectors; goes with the next release."""

from haltline.detectors.framework.base import SETTINGS, Detector, Pattern

__all__ = ["SETTINGS", "Detector", "Pattern"]
