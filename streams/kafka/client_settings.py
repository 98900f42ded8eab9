"""The type of librdkafka's settings, which every client of this package takes."""

ClientSetting = str | int | float | bool
"""A setting's value; the names are librdkafka's, such as `security.protocol`."""
