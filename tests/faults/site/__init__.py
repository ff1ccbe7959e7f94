"""A small site with tools that write down what they do."""
