"""PTransforms that several pipelines share."""
