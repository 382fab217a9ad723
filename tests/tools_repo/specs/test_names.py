import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.tools import ToolSpec
from tokenmill.tools_repo.specs.names import VALID, assign_names, rename


def tool(name, server="s", id=""):
    return ToolSpec(id=id or f"mcp/{server}/{name}", name=name, description="", input_schema="{}", origin="mcp",
                    server=server)  # fmt: skip


def names(*tools):
    return [t.name for t in assign_names(list(tools))]


@pytest.mark.parametrize(
    "name, renamed",
    [("get_weather", "get_weather"), ("files/read", "files_read"), ("Café.menu ", "Cafe_menu"), ("a b", "a_b")],
)
def test_close_to_the_original(name, renamed):
    assert rename(name) == renamed


def test_lost_letters_are_marked():
    weather, news = rename("天气"), rename("新闻")
    assert weather != news and weather.startswith("tool_")
    long = "x" * 80
    assert len(rename(long)) == 64 and rename(long + "a") != rename(long + "b")


def test_collisions_inside_a_server():
    first, second, third = names(tool("a.b"), tool("a_b"), tool("a/b"))
    assert second == "a_b", "the tool whose own name it is keeps it"
    assert len({first, second, third}) == 3 and first.startswith("a_b_") and third.startswith("a_b_")


def test_servers_tell_tools_apart():
    assert names(tool("status", "git"), tool("status", "svn"), tool("log", "git")) == [
        "git_status",
        "svn_status",
        "log",
    ]


def test_a_marked_name_never_takes_somebodys_own():
    taken = names(tool("a.b"), tool("a_b"))[0]
    result = names(tool("a.b"), tool("a_b"), tool(taken))
    assert result[1:] == ["a_b", taken] and len(set(result)) == 3


NAMES = st.text(max_size=6) | st.sampled_from(["a", "a.b", "a_b", "a/b", "s_a", "t_a", "天", "x" * 70, "x" * 71])


@given(
    st.lists(st.tuples(NAMES.filter(bool), st.sampled_from(["s", "t", "u v"])), unique=True, max_size=12), st.randoms()
)
def test_valid_unique_and_independent_of_order(parts, random):
    tools = [tool(*part) for part in parts]
    assigned = {t.id: t.name for t in assign_names(tools)}
    assert all(VALID.fullmatch(name) for name in assigned.values())
    assert len(set(assigned.values())) == len(tools)
    random.shuffle(tools)
    assert {t.id: t.name for t in assign_names(tools)} == assigned
    for t in tools:
        if VALID.fullmatch(t.original_name) and sum(rename(o.original_name) == t.original_name for o in tools) == 1:
            assert assigned[t.id] == t.original_name


def test_an_id_twice_is_an_error():
    with pytest.raises(ValueError, match="two tools"):
        assign_names([tool("a"), tool("a")])
