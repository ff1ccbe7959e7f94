"""``admin_tools``: what staff may do in the site's admin, as tools.

The admin decides: each call goes through the views of the ``AdminSite``, as a browser's request does.
"""
