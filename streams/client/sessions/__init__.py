"""Sessions of mechanisms: their steps, stored before they are sent."""
