"""From a decoded form to what it does, on any machine."""
