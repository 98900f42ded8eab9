import pytest

from haltline.detectors.commands import sql_destructions
from haltline.detectors.commands.sql import sql_creations
from tests.detectors.commands.cases import parameters, tuples


@pytest.mark.parametrize(("statement", "losses"), parameters("sql"))
def test_statements(statement: str, losses: tuple[str, ...]) -> None:
    assert tuples(sql_destructions(statement)) == losses


def test_what_is_created_is_reported_but_not_what_may_have_been_there_before() -> None:
    text = "create table a.b (x int); CREATE TEMP TABLE c AS SELECT 1; create database d"

    assert sql_creations(text) == ("table=a.b", "table=c", "database=d")
    assert sql_creations("create table if not exists a (x int); create or replace table b as select 1") == ()
