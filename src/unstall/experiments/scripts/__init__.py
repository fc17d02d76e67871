"""``confirm --script``: a user's own launch script, changed in a copy, run as it is and changed."""
