"""What the door takes and answers: its OpenAPI document, and the methods of its routes."""
