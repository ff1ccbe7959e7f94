"""The log of calls: what is known of each, written before its caller has the answer; and whoever else wants to hear."""
