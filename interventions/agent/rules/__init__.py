"""What the guard applies itself: the rules that it was given, results of calls made once, limits of a THROTTLE."""
