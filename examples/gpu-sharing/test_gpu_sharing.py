"""GPU sharing, six policies, and the experiment on a small part of the trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from experiment import POLICIES, by_load, run
from fragmentation import Fragmentation, Request, TypicalPod, typical_pods
from gpu_share import GPU_INDEX, GPU_MILLI, GPU_MODEL, GpuShare
from hypothesis import given
from hypothesis import strategies as st
from openb import NodeRow, TraceError, arrivals, read_trace
from run import main, table

from kubesched import CycleState, Plugin, Pod, Status, unschedulable
from kubesched.simulator import ScenarioClient
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

HERE = Path(__file__).parent
NODES, PODS = HERE / "nodes-small.csv", HERE / "pods-small.csv"
TYPICAL = [
    TypicalPod(Request(4000, 1000, 1), 0.4),
    TypicalPod(Request(2000, 500, 1, "T4|A10"), 0.3),
    TypicalPod(Request(8000, 1000, 2), 0.2),
    TypicalPod(Request(1000), 0.1),
]


def gpu_pod(name: str, milli: int, cpu: str = "1") -> Pod:
    """A pod that requests GPUs."""
    return pod(name, cpu=cpu, requests={GPU_MILLI: milli})


# --- GPU sharing ------------------------------------------------------------------------------------------------------


def test_pods_share_a_gpu(embedded: Embedded) -> None:
    """The README's manifest: two halves on one GPU, a whole on the other; and their annotations say so."""

    async def act(client: ScenarioClient) -> None:
        await embedded.apply(client, "pods.yaml")
        await client.sleep(5)
        for name, gpu in ("half-1", "0"), ("half-2", "0"), ("whole", "1"):
            await client.expect(pod=name, on_node="gpu-1", fields={f"metadata.annotations.{GPU_INDEX}": gpu})

    embedded.run(act, plugin=["gpu_share.py", "policies.py"], config="scheduler.yaml")


def test_a_gpu_is_free_again_when_its_pod_is_gone(cluster: VirtualCluster) -> None:
    """Rest and fragments: 600 + 600 are two GPUs, so a whole one has to wait until a pod ends."""
    cluster.use(GpuShare)
    cluster.add(node("n1", resources={GPU_MILLI: 2000}))
    first = gpu_pod("first", 600)
    assert cluster.schedule(first).node == "n1"
    assert cluster.schedule(gpu_pod("second", 600)).node == "n1"
    refused = cluster.schedule(gpu_pod("third", 700))
    assert refused.node == ""
    assert refused.rejections["n1"].message == "node(s) had no GPU with enough room"
    cluster.remove(first)
    cluster.advance(10)
    assert cluster.node_of("third") == "n1"


def test_a_gpu_is_given_back_if_the_pod_is_refused(cluster: VirtualCluster) -> None:
    """Permit refuses the first pod after Reserve, also a pod without GPUs; the GPU is free for the next."""

    class Refuses(Plugin):
        name = "Refuses"

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return unschedulable("not today") if pod.labels.get("refused") else None

    cluster.use(GpuShare)
    cluster.use(Refuses)
    cluster.add(node("n1", resources={GPU_MILLI: 1000}))
    assert cluster.schedule(pod("plain", labels={"refused": "yes"})).node == ""
    assert cluster.schedule(pod("first", requests={GPU_MILLI: 1000}, labels={"refused": "yes"})).node == ""
    assert cluster.schedule(gpu_pod("second", 1000)).node == "n1"


def test_one_gpu_and_a_half_is_refused(cluster: VirtualCluster) -> None:
    """Only parts of one GPU and whole numbers of GPUs are requests; the message has the value."""
    cluster.use(GpuShare)
    cluster.add(node("n1", resources={GPU_MILLI: 8000}))
    assert "is 1500, which is neither" in cluster.schedule(gpu_pod("odd", 1500)).message


@pytest.mark.parametrize("plugin", [GpuShare, *(each for name, each in POLICIES.items() if name != "Random")])
def test_they_keep_the_contract(plugin: type[Plugin]) -> None:
    """Scores are in range, nodes are judged alone, and cached results stay true. Only Random may choose differently."""
    check_plugin(
        plugin,
        labels={GPU_MODEL: ["T4", "G2"]},
        nodes=[node("gpus", resources={GPU_MILLI: 4000}), node("gpu", resources={GPU_MILLI: 1000})],
        pods=[gpu_pod("half", 500), gpu_pod("two", 2000)],
        examples=15,
    )


# --- fragmentation ----------------------------------------------------------------------------------------------------


def plain(left: list[int], cpu: int, model: str) -> float:
    """F of a node, as the paper defines it."""
    total = 0.0
    for each in TYPICAL:
        wanted = each.request
        fitting = [gpu for gpu in left if gpu >= wanted.gpu_milli]
        allowed = not wanted.models or model in wanted.models.split("|")
        fits = wanted.gpus and allowed and cpu >= wanted.milli_cpu and len(fitting) >= wanted.gpus
        total += each.frequency * (sum(left) - (sum(fitting) if fits else 0))
    return total


@given(
    st.lists(st.sampled_from([0, 100, 300, 500, 700, 1000]), min_size=3, max_size=3),
    st.integers(0, 12_000),
    st.sampled_from(["T4", "G2"]),
    st.sampled_from([0, 100, 500, 1000, 2000]),
    st.sampled_from([500, 4000]),
)
def test_fragmentation_in_columns_is_the_definition(
    left: list[int], cpu: int, model: str, milli: int, asks: int
) -> None:
    """The vectorised growth of F is the difference of F before and after the placement, for every GPU."""
    fragmentation = Fragmentation(TYPICAL)
    accepted = fragmentation.accepts(model)[None, :]
    growth = fragmentation.growth(np.array([left]), np.array([cpu]), accepted, milli, asks)[0]
    before = plain(left, cpu, model)
    if 0 < milli < 1000:
        for gpu, grown in enumerate(growth):
            placed = [each - milli * (gpu == other) for other, each in enumerate(left)]
            assert grown == (pytest.approx(plain(placed, cpu - asks, model) - before) if min(placed) >= 0 else np.inf)
    elif left.count(1000) >= milli // 1000:
        placed = list(left)
        for _ in range(milli // 1000):
            placed[placed.index(1000)] = 0
        assert growth == pytest.approx(plain(placed, cpu - asks, model) - before)


def test_typical_pods_are_the_frequent_ones() -> None:
    """The most frequent requests that make up 95 %, with frequencies that add up to 1."""
    requests = [Request(1000)] * 60 + [Request(2000)] * 36 + [Request(3000)] * 4
    assert typical_pods(requests) == [TypicalPod(Request(1000), 0.625), TypicalPod(Request(2000), 0.375)]


# --- the experiment ---------------------------------------------------------------------------------------------------


def test_arrivals_reach_the_load_and_depend_on_the_seed_alone() -> None:
    """Every pod of the trace arrives, then copies, until the load is reached; less than the trace is possible too."""
    trace = read_trace(NODES, PODS)
    pods = arrivals(trace, Random(42), 1.3)
    assert pods == arrivals(trace, Random(42), 1.3) != arrivals(trace, Random(43), 1.3)
    assert sorted(pods[: len(trace.pods)]) == sorted(trace.pods)
    largest = max(each.gpu_milli for each in trace.pods)
    assert 1.3 * trace.capacity - 1000 <= sum(each.gpu_milli for each in pods) <= 1.3 * trace.capacity + largest
    assert sum(each.gpu_milli for each in arrivals(trace, Random(42), 0.5)) <= 0.5 * trace.capacity


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Policy, seed, per cent of load; FGD allocates more than Random; and the figure is drawn."""
    pytest.importorskip("matplotlib")
    figure = tmp_path / "figure.svg"
    files = ["--nodes", str(NODES), "--pods", str(PODS)]
    args = [*files, "--policies", "Random,FGD", "--seeds", "42-43", "--output", "json", "--plot", str(figure)]
    assert main([*args, "--processes", "2"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["Random", "FGD"]
    assert list(printed["FGD"]) == ["42", "43"]
    assert list(printed["FGD"]["42"]) == [str(load) for load in range(80, 131)]
    assert printed["FGD"]["42"]["130"] > printed["Random"]["42"]["130"] > 50
    assert b"<svg" in figure.read_bytes()


@pytest.mark.parametrize(
    ("figure", "problem"),
    [("figure.xyz", "must end in .png, .svg, .pdf"), ("missing/figure.png", "there is no folder")],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_all_runs(
    figure: str, problem: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They take minutes, and their results would be lost."""
    pytest.importorskip("matplotlib")
    with pytest.raises(SystemExit):
        main(["--nodes", str(NODES), "--pods", str(PODS), "--plot", str(tmp_path / figure)])
    assert problem in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("seeds", "shown"), [([42], "90.00"), ([42, 43], "90.50 ± 0.50")])
def test_one_seed_has_no_deviation(seeds: list[int], shown: str) -> None:
    """A deviation of zero would say that seeds do not matter."""
    found = table({"FGD": {seed: dict.fromkeys(range(80, 131), 48.0 + seed) for seed in seeds}}, "pods")
    assert [list(column.cells) for column in found.columns] == [["FGD"], *([shown],) * 6]


@pytest.mark.parametrize(
    ("pods", "problem"),
    [
        ("name,cpu_milli,num_gpu\na,1000,0\n", "no pod requests a GPU"),
        ("name,cpu_milli,num_gpu\na,x,1\n", ":2: cpu_milli is 'x'; it must be a number from 0 on"),
        ("name,num_gpu\na,1\n", ":2: cpu_milli is missing"),
        ("name,cpu_milli\n", "the file has no rows"),
        ("name,cpu_milli,num_gpu\na,1000,1\nb,1000\n", ":3: the line has 2 values, and there are 3 columns; write one"),
    ],
)
def test_a_bad_trace_is_refused(pods: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names file, line, column and value."""
    file = tmp_path / "pods.csv"
    file.write_text(pods)
    with pytest.raises(TraceError, match=problem):
        read_trace(NODES, file)
    assert main(["--nodes", str(NODES), "--pods", str(file)]) == 1
    assert problem in capsys.readouterr().err


def test_swapped_files_are_refused() -> None:
    """The nodes of a trace could be read as pods, and its pods as nodes, to a table that means nothing."""
    with pytest.raises(
        TraceError, match=r"pods-small\.csv:1: these are the columns of pods, and .*; swap the two files"
    ):
        read_trace(PODS, NODES)


def test_traces_of_the_family_differ_in_columns(tmp_path: Path) -> None:
    """Missing columns have defaults, numbers may be written as floats, and a GPU is at most a whole one."""
    file = tmp_path / "pods.csv"
    file.write_text("job_id,cpu,num_gpu,gpu_milli,gpu_spec\n7,1.5,1.0,2000,A||B\n8,2,0,500,T4\n9,1,2,500,nan\n")
    first, second, third = read_trace(NODES, file).pods
    assert first.request == Request(1500, 1000, 1, "A|B")
    assert second.request == Request(2000)
    assert (third.request, third.gpu_milli) == (Request(1000, 1000, 2), 2000)


OPTIONAL = ("qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time", "extra")


@given(st.permutations(["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", *OPTIONAL]), st.data())
def test_columns_may_come_in_any_order_and_form(columns: list[str], data: st.DataObject) -> None:
    """Order, separator, capitals, empty lines, compression and missing columns of no interest change nothing."""
    rows = [
        {"name": "p1", "cpu_milli": "4000", "memory_mib": "1024", "num_gpu": "1", "gpu_milli": "500", "gpu_spec": "T4"},
        {"name": "p2", "cpu_milli": "8000.0", "memory_mib": "", "num_gpu": "2", "gpu_milli": "", "gpu_spec": "B|A"},
        {"name": "p3", "cpu_milli": "", "memory_mib": "0", "num_gpu": "0", "gpu_milli": "0", "gpu_spec": "NaN"},
    ]
    kept = [each for each in columns if each not in OPTIONAL or data.draw(st.booleans())]
    separator = data.draw(st.sampled_from(",;\t"))
    names = [each.upper() if data.draw(st.booleans()) else f" {each}" for each in kept]
    lines = [names, *([row.get(each, "x") for each in kept] for row in rows), [""]]
    text = data.draw(st.sampled_from(["", "\ufeff"])) + "\r\n".join(separator.join(line) for line in lines)
    body = text.encode()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pods.csv"
        file.write_bytes(gzip.compress(body) if data.draw(st.booleans()) else body)
        found = read_trace(NODES, file).pods
    assert [each.request for each in found] == [
        Request(4000, 500, 1, "T4"),
        Request(8000, 1000, 2, "A|B"),
        Request(0),
    ]
    assert [each.memory_mib for each in found] == [1024, 0, 0]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("num_gpu,gpu_milli\n0.5,", Request(1000, 500, 1)),
        ("gpu_milli\n300", Request(1000, 300, 1)),
        ("num_gpu,gpu_milli\n4,250", Request(1000, 1000, 4)),
        ("num_gpu,gpu_milli\n1,0", Request(1000)),
        ("num_gpu\n8", Request(1000, 1000, 8)),
    ],
)
def test_gpus_are_written_in_several_ways(cells: str, expected: Request, tmp_path: Path) -> None:
    """As a part of a GPU, in thousandths without a number, or several at once, which are never shared."""
    file = tmp_path / "pods.csv"
    names, values = cells.split("\n")
    file.write_text(f"cpu,{names}\n1,{values}\n1,{'1,' * (names.count(',') + 1)}\n")
    assert read_trace(NODES, file).pods[0].request == expected


def test_nodes_differ_in_columns_too(tmp_path: Path) -> None:
    """Cores and GiB instead of thousandths and MiB, no memory at all, and two rows of one name."""
    file = tmp_path / "nodes.csv"
    file.write_text("gpu_type,gpus,cpu,name,memory_gib\nT4,2,64,a,256\n,0,32,a,\n")
    assert read_trace(file, PODS).nodes == [
        NodeRow("a", 64_000, 256 * 1024, 2, "T4"),
        NodeRow("a-2", 32_000, 2**20, 0, ""),
    ]


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_runs_on_an_unusual_trace(policy: str, tmp_path: Path) -> None:
    """Nodes without GPUs and with sixteen, an unknown model, pods without CPU, and far more pods than fit."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("model,gpu,cpu_milli\n,0,8000\nX,16,256000\nT4,1,4000\n")
    rows = ["1,200,,0", "4,,X,16000", "1,1000,NOWHERE,1000", "0,,,2000"]
    pods.write_text("num_gpu,gpu_milli,gpu_spec,cpu_milli\n" + "\n".join(rows * 12) + "\n")
    found = run(read_trace(nodes, pods), policy, 1)
    assert 50 < found[130] <= 100


def test_a_per_cent_that_was_stepped_over_keeps_the_value_before_it() -> None:
    """Values of one per cent are averaged, and a gap repeats the last one."""
    found = by_load([(79.6, 70.0), (80.2, 71.0), (83.0, 72.0)])
    assert (found[80], found[81], found[82], found[83], found[130]) == (70.5, 71.0, 71.0, 72.0, 72.0)
