"""Small programs in any language: the files, trees, tables, buckets and requests that they would delete."""
