"""What services declare of themselves agrees with what stands elsewhere."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import mooring
from mooring import operator_tools
from mooring.clients import catalog
from mooring.doctor.books import Books
from mooring.saga.define import Heading
from mooring.service import Service
from mooring.services import SERVICES
from mooring.store import migrate

FOLDER = Path(mooring.__file__).parent
PAGES = {name for each in SERVICES for name in each.pages}


def test_every_folder_that_declares_a_service_is_opened() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/policy.py")} - {"web"}
    assert folders == {each.name for each in SERVICES}


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: each.name)
def test_a_service_is_called_by_one_name_everywhere(service: Service[Any]) -> None:
    assert service.entry.partition("/")[0] == service.name
    assert service.kind in catalog.ALIASES[service.name]
    tables = importlib.import_module(f"mooring.{service.name}.tables")
    assert tables.Base.metadata.info["service"] == service.name
    assert migrate.revisions(service.name)


def test_the_operations_of_all_services_with_sagas_are_listed() -> None:
    declared = {each.name for each in SERVICES if each.take_sagas is not None}
    assert set(operator_tools.SERVICES) == declared


def test_every_way_that_a_step_went_has_a_sign_in_the_timeline() -> None:
    assert set(operator_tools.SIGNS) == set(get_args(Heading))


def test_the_doctor_has_room_for_every_page() -> None:
    fields = {field.name for field in msgspec.structs.fields(Books)}
    assert fields >= PAGES
    assert len(PAGES) == sum(len(each.pages) for each in SERVICES)
