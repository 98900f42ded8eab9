"""The former name of `haltline.detectors.features.observation`, for such packages; goes with the next release."""

from haltline.detectors.features.observation import Observation as Act
from haltline.detectors.features.observation import Trait as Sight

__all__ = ["Act", "Sight"]
