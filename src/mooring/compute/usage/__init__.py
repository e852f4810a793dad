"""What projects have used: reports for operators, and for the projects themselves."""
