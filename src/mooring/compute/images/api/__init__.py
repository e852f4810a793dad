"""The routes of images of servers."""
