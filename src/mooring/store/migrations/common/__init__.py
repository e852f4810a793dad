"""Tables that stand in every service's database: sagas and the fence."""
