"""Read records from files and bundled sets, augment them, and hide and impute features."""
