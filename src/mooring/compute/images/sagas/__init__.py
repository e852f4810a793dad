"""The sagas of images of servers."""
