"""What each wire API is: how it is asked, how its requests are read, and how its answers are measured."""
