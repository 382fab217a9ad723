import math

import numpy as np
import orjson
import pytest
from tokenmill.schemas.tools import ToolSpec
from tokenmill.tools_repo.specs.coverage import draw, measure, project
from tokenmill.tools_repo.specs.tally import Part, Tally, features


def spec(index, origin="mcp", category="travel", schema=None, **fields):
    text = orjson.dumps(
        schema or {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    ).decode()
    place = {"domain": [category, "sub"]} if origin == "synthetic" else {"server": f"server-{category}"}
    return ToolSpec(id=str(index), name=f"t{index}", description="d", input_schema=text, origin=origin, category=category,
                    **place, **fields)  # fmt: skip


def unit(*rows):
    vectors = np.array(rows, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_distances_between_origins():
    specs = [spec(0), spec(1), spec(2, "synthetic"), spec(3, "synthetic", "health")]
    numbers = measure(specs, unit([1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]))
    assert numbers.tools == {"mcp": 2, "synthetic": 2}
    assert numbers.nearest["real_to_real"].median == 1.0, "a tool is not its own neighbour"
    assert numbers.nearest["real_to_synthetic"].median == 0.5
    assert numbers.nearest["synthetic_to_real"].nearer_than_0_1 == 0.5
    assert numbers.nearest["synthetic_to_synthetic"].p10 == 1.0


def test_blocks_do_not_change_distances(monkeypatch):
    rng = np.random.default_rng(0)
    specs = [spec(i, "synthetic" if i % 3 else "mcp") for i in range(50)]
    vectors = unit(*rng.standard_normal((50, 8)))
    whole = measure(specs, vectors)
    monkeypatch.setattr("tokenmill.tools_repo.specs.coverage._BLOCK", 7)
    assert measure(specs, vectors) == whole


def test_what_is_missing_is_none_not_zero():
    numbers = measure([spec(0)], unit([1, 0]))
    assert numbers.nearest == dict.fromkeys(
        ("real_to_real", "real_to_synthetic", "synthetic_to_real", "synthetic_to_synthetic")
    )
    assert set(numbers.features) == {"real"}
    with pytest.raises(ValueError, match="at least one"):
        measure([], np.zeros((0, 2)))
    with pytest.raises(ValueError, match="as many"):
        measure([spec(0)], np.zeros((2, 2)))


def test_entropy_of_categories():
    even = [spec(i, category=c) for i, c in enumerate("abcd")]
    assert measure(even, np.eye(4)).entropy == {"category": 2.0, "toolset": 2.0, "all_categories": 2.0}
    skewed = [spec(i, category=c) for i, c in enumerate("aaab")]
    assert math.isclose(measure(skewed, np.eye(4)).entropy["category"], 0.8113, abs_tol=1e-4)


@pytest.mark.parametrize(
    "schema, used",
    [
        ({"type": "object", "properties": {}}, {"no_arguments"}),
        ({"properties": {"a": {"enum": ["x"]}}, "required": ["a"]}, {"enum"}),
        ({"properties": {"a": {"type": "object", "properties": {"b": {"format": "uri"}}}}, "required": ["a"]},
         {"nested_object", "format"}),
        ({"properties": {"a": {"type": "array", "items": {"type": "object"}}}, "required": ["a"]},
         {"array", "array_of_objects"}),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}},
         {"union", "default", "optional"}),
        ({"properties": {"a": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}},
          "required": ["a"]}, {"map", "bounds"}),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "$defs": {"n": {"pattern": "x"}}},
         {"reference", "pattern"}),
        ({"properties": {"enum": {"type": "string"}, "pattern": {}}, "required": ["enum", "pattern"]}, set()),
    ],
)  # fmt: skip
def test_schema_features(schema, used):
    assert features(spec(0, schema={"type": "object", **schema})) == used
    assert "output_schema" in features(spec(0, output_schema='{"type":"object"}'))


@pytest.fixture(scope="module")
def clusters():
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((3, 16)) * 4
    specs = [spec(i, "synthetic" if i % 2 else "mcp", f"c{i % 3}") for i in range(60)]
    return specs, unit(*(centres[i % 3] + rng.standard_normal(16) * 0.3 for i in range(60)))


def test_the_projection_keeps_clusters_apart_and_is_repeatable(clusters):
    _, vectors = clusters
    points = project(vectors)
    assert points.shape == (60, 2) and np.array_equal(points, project(vectors))
    labels = np.arange(60) % 3
    centres = np.stack([points[labels == k].mean(axis=0) for k in range(3)])
    nearest = np.linalg.norm(points[:, None] - centres[None], axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.95


def test_pictures(clusters, tmp_path):
    specs, vectors = clusters
    paths = draw(specs, vectors, tmp_path / "out")
    assert [p.name for p in paths] == ["coverage_real.png", "coverage_synthetic.png", "coverage_all.png"]
    from matplotlib.image import imread

    for path in paths:
        image = imread(path)
        assert image.shape[0] > 500
        coloured = image[..., :3].max(axis=2) - image[..., :3].min(axis=2) > 0.2
        assert coloured.sum() > 60 * 9, "every point is drawn"
    real = [s for s in specs if s.origin == "mcp"]
    rows = [i for i, s in enumerate(specs) if s.origin == "mcp"]
    assert [p.name for p in draw(real, vectors[rows], tmp_path / "real")] == ["coverage_real.png", "coverage_all.png"]
    with pytest.raises(ValueError, match="at least 5"):
        draw(specs[:4], vectors[:4], tmp_path)


def test_labels_cannot_break_a_picture(tmp_path):
    rng = np.random.default_rng(0)
    names = ["_hidden", "$x^2", "天气", "a" * 200, "", "line\nbreak", *map(str, range(30))]
    specs = [spec(i, category=name) for i, name in enumerate(names)]
    assert draw(specs, unit(*rng.standard_normal((len(names), 8))), tmp_path)


def test_a_part_is_drawn_evenly_from_both_origins_whatever_the_order():
    specs = [spec(i, "mcp" if i < 30 else "synthetic") for i in range(130)]
    drawn = []
    for order in (specs, specs[::-1]):
        part = Part(40)
        for one in order:
            part.offer(one)
        drawn.append(part.drawn())
    assert drawn[0] == drawn[1] and len(drawn[0]) == 40
    assert sum(one.origin == "mcp" for one in drawn[0]) == 20
    part = Part(80)
    for one in specs:
        part.offer(one)
    assert sum(one.origin == "mcp" for one in part.drawn()) == 30 and len(part.drawn()) == 80


def test_a_part_has_the_distances_and_all_have_the_counts():
    specs = [spec(i, category=c) for i, c in enumerate("aaaabbcd")]
    numbers = measure(specs[:2], unit([1, 0], [0, 1]), Tally(specs))
    assert numbers.tools == {"mcp": 8} and numbers.entropy["category"] == 1.75
    assert numbers.nearest["real_to_real"].median == 1.0
    assert Tally(specs).entropy == measure(specs, np.eye(8)).entropy
