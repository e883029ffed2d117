"""The application for spark-submit."""
