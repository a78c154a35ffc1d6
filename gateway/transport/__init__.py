"""The imperative shell: one file per wire form, and what stands between a socket and the pipeline."""
