"""Run by Alembic for each command, on the connection that `mooring.store.migrate` opened."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
