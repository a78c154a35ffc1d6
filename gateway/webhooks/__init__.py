"""The service's webhooks, one endpoint for all tenants there, handed on to the tenant whose object each is about."""
