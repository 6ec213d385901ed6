"""Privacy accounting: claims, filters, odometers, and the adjudication of requests."""
