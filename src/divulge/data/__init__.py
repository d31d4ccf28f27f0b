"""Records: bundled ones, files, and the checks that an audit makes of them."""
