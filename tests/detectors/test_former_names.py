"""Packages with detectors of their own go on importing what they imported before, for one release."""

from haltline.detectors import act, base
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import SETTINGS, Detector, Pattern


def test_former_names_are_the_same_classes() -> None:
    assert (base.Detector, base.Pattern, base.SETTINGS) == (Detector, Pattern, SETTINGS)
    assert (act.Act, act.Sight) == (Observation, Trait)
