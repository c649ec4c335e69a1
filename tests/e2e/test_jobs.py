"""Jobs over HTTP: lists and refusals. What jobs do is in the tests of their kinds."""
import pytest

from test_users import call, server  # noqa: F401

pytestmark = pytest.mark.gatehouse_only

MISSING = "019a8f1e-7c00-7d3c-9d55-9a3c21c7e5a0"


def test_a_job_that_is_not_there_is_404_on_every_route(server):
    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/resume")):
        status, body, _ = call(server, method, f"/v1/jobs/{MISSING}{path}")
        assert (status, body["field"]) == (404, "id")


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "state=gone", "kind=unknown", "cursor=x", "kinds=a"])
def test_a_bad_query_is_refused_by_name(server, query):
    status, body, _ = call(server, "GET", f"/v1/jobs?{query}")
    assert (status, body["field"]) == (422, query.split("=")[0])
