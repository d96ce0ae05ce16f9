"""From a physics to a semi-discrete system."""
