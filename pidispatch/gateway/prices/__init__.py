"""What a model costs, by the prices file or the list that comes with genai-prices."""
