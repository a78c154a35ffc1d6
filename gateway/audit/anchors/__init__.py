"""Where checkpoints are kept outside Redis, so that a log that was cut or rolled back is found out."""
