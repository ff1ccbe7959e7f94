"""The example of a deployment: its files fit each other, and name what there is."""
