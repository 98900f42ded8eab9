"""Notifies people of incidents: routes decide who and when, channels send, and the `notifications` topic remembers.

`routes` and `delivery_queue` are pure. `notifier` reads the incidents, a thread for each channel sends (`sending`), and
an offset is committed when everything up to it is settled on the topic.
"""
