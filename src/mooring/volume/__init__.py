"""The volume service: block storage behind the Cinder v3 API."""
