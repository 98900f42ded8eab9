"""Notifies people of incidents: `kinds` decides of what, channels send, and the `notifications` topic remembers.

`notifier` reads the incidents, a thread for each receiver sends (`sending`), and an offset is committed when everything
up to it is settled on the topic.
"""
