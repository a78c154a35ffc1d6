"""The request, top to bottom: `request.py` has one call per stage, the other files one stage or one aftermath each."""
