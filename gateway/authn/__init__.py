"""Who is calling: one file per authenticator, each answering Principal, NotMine or Rejected (`authenticate.py` composes them)."""
