"""What the attention did on one window: implied maps, measures, pictures of them, and a page."""
