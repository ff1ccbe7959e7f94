"""What a tool raises to be read by the model."""


class ToolError(Exception):
    """Raised by a tool to tell the model what went wrong and what to do instead.

    The text goes to the client as it is; never put into it what the caller may not see.
    """
