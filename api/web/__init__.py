"""The web page: plain files, and the one module that serves them."""
