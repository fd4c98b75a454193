"""The first minutes: finding a model, checking the installation, the tour and the demo."""
