"""A provider that behaves like the OpenAI API for responses and conversations, and is unkind.

It holds state, checks what it is sent as strictly as the real service, hands out IDs of the real shapes, and can be told
to misbehave on the wire in every way that a proxy must survive. It shares no code with the gateway, so that a mistake
in the gateway's idea of an ID cannot hide here. `app.build` gives the ASGI app, `server.serve` runs it.
"""
