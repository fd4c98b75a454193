"""The composition root: the only part that knows everyone. It joins configuration, models, tools and front ends."""
