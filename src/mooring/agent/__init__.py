"""One host: a servant with verbs, which calls nobody and keeps no memory that matters."""
