"""librdkafka's settings, as every client of this package takes them."""

ClientSetting = str | int | float | bool
"""A value; names are librdkafka's, such as `security.protocol`."""
