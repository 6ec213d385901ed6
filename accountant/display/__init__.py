"""Every word and number that a person sees: amounts, times, states, reasons, limits; no HTML."""
