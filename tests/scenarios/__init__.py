"""Alert stories as data, and the driver that lives through them."""
