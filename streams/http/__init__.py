"""What all HTTP routes share: problems, the context of a request, the Host check, refusals."""
