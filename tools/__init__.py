"""What writes and checks files of the project and is not part of the package."""
