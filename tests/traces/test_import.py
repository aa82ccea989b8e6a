"""Public traces become scenarios: each kind read from a small file of the same shape."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO
from unittest import mock

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cli.main import main
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.simulator.trace_file import GPU_MODEL, Arrival, TraceHead, opened_trace
from kubesched.traces import reading, sorting
from kubesched.traces.importing import Window, import_trace
from kubesched.traces.kinds import KINDS
from kubesched.traces.model import GIB, Source, TraceError, TraceOptions
from kubesched.traces.sorting import sorted_on_disk

OPTIONS = TraceOptions(machine_cpu=10_000, machine_memory=100 * GIB)
GPU_MILLI, GPU = "alibabacloud.com/gpu-milli", "nvidia.com/gpu"


def imported(kind: str, *files: Path, window: Window | None = None) -> tuple[TraceHead, list[Arrival], dict[str, int]]:
    """The head and the arrivals of the imported trace, and what was skipped."""
    out = files[0].parent / "out.py"
    made = import_trace(KINDS[kind], Source(files, OPTIONS), out, window or Window())
    with opened_trace(out.with_name("out.trace.jsonl.gz")) as (head, arrivals):
        return head, list(arrivals), dict(made.skipped)


def written(path: Path, *lines: str) -> Path:
    """A file with these lines."""
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def test_openb(tmp_path: Path) -> None:
    """Thousandths of GPUs, allowed models and run times; a pod without a GPU has no model."""
    nodes = written(
        tmp_path / "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model", "n-0,64000,1024,2,P100", "n-1,32000,512,0,"
    )
    pods = written(
        tmp_path / "pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        "p-1,2000,256,1,460,P100|T4,LS,Running,110,300,120",
        "p-0,4000,512,0,0,T4,BE,Running,100,,",
    )
    head, (first, second), _ = imported("openb", nodes, pods)
    assert [(each.name, each.cpu, each.memory, each.resources) for each in head.machines] == [
        ("n-0", 64000, GIB, {GPU_MILLI: 2000}),
        ("n-1", 32000, GIB // 2, {}),
    ]
    assert (first.at, first.name, first.run, first.models, first.resources) == (0, "p-0-0", None, (), {})
    assert (second.at, second.run, second.models, second.resources) == (10, 180, ("P100", "T4"), {GPU_MILLI: 460})


def test_openb_without_times(tmp_path: Path) -> None:
    """Some traces of the family have five columns; their pods arrive one a second and stay."""
    pods = written(tmp_path / "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli", "a,1,1,8,1000", "b,1,1,1,500")
    head, arrivals, _ = imported("openb", pods)
    assert [(each.at, each.run) for each in arrivals] == [(0, None), (1, None)]
    assert head.machines[0].resources == {GPU_MILLI: 8000}


def test_pai_2020(tmp_path: Path) -> None:
    """No header; hundredths of cores and GPUs, several instances; a task that never started is skipped."""
    tasks = written(
        tmp_path / "tasks.csv.gz",
        "job-a,worker,3,Terminated,500,560,600,29.5,50,T4",
        "job-b,ps,1,Running,510,,200,10,150,MISC",
        "job-c,ps,1,Waiting,,,200,10,,",
    )
    machines = written(tmp_path / "machines.csv", "m1,T4,64,256,2")
    head, (first, second), skipped = imported("alibaba-pai-2020", tasks, machines)
    assert (first.count, first.cpu, first.memory, first.run) == (3, 6000, round(29.5 * GIB), 60)
    assert (first.resources, first.models) == ({GPU_MILLI: 500}, ("T4",))
    assert (second.at, second.run, second.resources, second.models) == (10, None, {GPU_MILLI: 2000}, ())
    assert (head.pods, head.machines[0].cpu, skipped) == (4, 64000, {"has no start_time": 1})


def test_without_machines_pods_may_use_any_gpu_model(tmp_path: Path) -> None:
    """The typical machine that stands for those of the trace has no model, so no pod asks for one."""
    tasks = written(tmp_path / "tasks.csv", "a,worker,2,Terminated,500,560,600,29.5,50,T4")
    _, (task,), _ = imported("alibaba-pai-2020", tasks)
    assert (task.resources, task.models) == ({GPU_MILLI: 500}, ())
    out = tmp_path / "out.py"
    result = CliRunner().invoke(main, ["trace", "import", "alibaba-pai-2020", str(tasks), "-o", str(out)])
    assert "The trace lists no machines: 2 pods may use any GPU model" in result.stderr
    report = json.loads(CliRunner().invoke(main, ["simulate", str(out), "-o", "json"]).stdout)
    assert report["bindings"] == 2


def test_fewer_nodes_are_from_all_over_the_list(tmp_path: Path) -> None:
    """A part of the machines has the models of all of them, in about the same proportion."""
    task = written(tmp_path / "tasks.csv", "a,worker,2,Terminated,500,560,600,29.5,50,T4")
    listed = [f"m{n},{'T4' if n < 50 else 'P100' if n < 75 else 'V100'},64,256,2" for n in range(100)]
    head, *_ = imported("alibaba-pai-2020", task, written(tmp_path / "m.csv", *listed), window=Window(nodes=8))
    assert [each.labels[GPU_MODEL] for each in head.machines] == ["T4"] * 4 + ["P100"] * 2 + ["V100"] * 2
    head, *_ = imported("alibaba-pai-2020", task, tmp_path / "m.csv", window=Window(nodes=200))
    assert Counter(each.labels[GPU_MODEL] for each in head.machines) == {"T4": 100, "P100": 50, "V100": 50}


def test_alibaba_2018(tmp_path: Path) -> None:
    """Containers count once and stay, tasks end; memory is a per cent of a machine's."""
    containers = written(
        tmp_path / "container_meta.csv", "c_1,m_1,0,app_1,started,400,800,1.56", "c_1,m_1,9,app_1,stopped,400,800,1.56"
    )
    tasks = written(tmp_path / "batch_task.csv", "M1,2,j_1,1,Terminated,87,100,100,0.5", "M2,1,j_1,1,Waiting,,,100,0.5")
    machines = written(tmp_path / "machine_meta.csv", "m_1,0,1,2,96,100,USING", "m_1,50,1,2,96,100,USING")
    head, (container, task), skipped = imported("alibaba-2018", containers, tasks, machines)
    assert (container.cpu, container.memory, container.run) == (4000, round(1.56 * GIB), None)
    assert (task.at, task.cpu, task.memory, task.run, task.count) == (87, 1000, GIB // 2, 13, 2)
    assert ([each.cpu for each in head.machines], skipped) == ([96000], {"has no start_time": 1})


def test_azure_packing_2020(tmp_path: Path) -> None:
    """Fractions of the machine that most types run on; what began before the trace is there at its start."""
    path = tmp_path / "packing.sqlite"
    database = sqlite3.connect(path)
    database.executescript(
        """CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic);
        CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime);
        INSERT INTO vmType VALUES (1, 1, 16, .5, .25, 0, .1, .05), (2, 2, 16, .1, .1, 0, 0, 0);
        INSERT INTO vmType VALUES (3, 3, 17, 1, 1, 0, 0, 0);
        INSERT INTO vm VALUES (7, 1, 1, 1, -2, .5), (8, 1, 2, 0, .25, NULL), (9, 1, 3, 0, 1, 2);"""
    )
    database.commit()
    database.close()
    head, (first, second), skipped = imported("azure-packing-2020", path)
    assert (first.at, first.cpu, first.memory, first.run, first.priority) == (0, 5000, 25 * GIB, 43_200, -1)
    assert first.resources == {"azure.example.com/ssd": 100, "azure.example.com/nic": 50}
    assert (second.at, second.run) == (21_600, None)
    assert (head.priorities, head.machines[0].resources["azure.example.com/nic"]) == ([-1], 1000)
    assert skipped == {"its type does not run on machines of type 16": 1}


def test_odd_values_of_azure(tmp_path: Path) -> None:
    """A time that is no number is named with its row; a compressed file is to be decompressed."""
    path = tmp_path / "packing.sqlite"
    database = sqlite3.connect(path)
    database.executescript(
        """CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic);
        CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime);
        INSERT INTO vmType VALUES (1, 1, 16, .5, .25, 0, .1, .05);
        INSERT INTO vm VALUES (7, 1, 1, 1, 0, .5), (8, 1, 1, 0, 'soon', NULL);"""
    )
    database.commit()
    database.close()
    with pytest.raises(TraceError, match=r"packing.sqlite:2: starttime is 'soon'; expected a number"):
        imported("azure-packing-2020", path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(TraceError, match="has to be decompressed first"):
        imported("azure-packing-2020", path)


def test_odd_servers_of_philly(tmp_path: Path) -> None:
    """Servers that are no objects are left out, and a job without any other is skipped."""
    job = {"submitted_time": "2017-10-09 00:00:00", "jobid": "j", "attempts": [{"detail": ["m1", 3]}, {"detail": 1}]}
    other = job | {"attempts": [{"detail": [{"ip": "m1", "gpus": 4}]}]}
    path = written(tmp_path / "cluster_job_log", json.dumps(job), json.dumps(other))
    _, arrivals, skipped = imported("philly", path)
    assert ([each.resources for each in arrivals], skipped) == ([{}], {"never had a server": 1})


def test_helios(tmp_path: Path) -> None:
    """Dates, and a pod per node of a job with its part of the GPUs; a job that never started is skipped."""
    path = written(
        tmp_path / "cluster_log.csv",
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        "2,u1,vc1,16,32,2,COMPLETED,2020-04-01 00:01:00,2020-04-01 00:02:00,2020-04-01 00:03:00,60,60",
        "1,u1,vc1,0,4,1,FAILED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:00:30,,0",
        "3,u1,vc1,0,4,1,CANCELLED,2020-04-01 00:00:00,None,None,None,9",
    )
    head, (first, second), skipped = imported("helios", path)
    assert skipped == {"never started": 1}
    assert (first.at, first.cpu, first.run, first.resources) == (0, 4000, 30, {})
    assert (second.at, second.count, second.cpu, second.resources) == (60, 2, 16000, {GPU: 8})
    assert (head.machines[0].resources, head.machines[0].count) == ({GPU: 8}, 4)  # 32 cores at the peak, 80 % of 40


def test_philly(tmp_path: Path) -> None:
    """A JSON array; a pod per server, from the first attempt to the end of the last."""
    attempt = {"start_time": "2017-10-09 00:01:00", "end_time": "2017-10-09 00:02:00"}
    again = {"start_time": "2017-10-09 00:03:00", "end_time": "2017-10-09 00:05:00"}
    servers = [{"ip": "m1", "gpus": ["g0", "g1"]}, {"ip": "m2", "gpus": ["g0"]}]
    jobs = [
        {
            "status": "Pass",
            "vc": "v",
            "jobid": "application_1",
            "user": "u",
            "submitted_time": "2017-10-09 00:00:00",
            "attempts": [attempt | {"detail": servers}, again],
        },
        {
            "status": "Killed",
            "vc": "v",
            "jobid": "application_2",
            "user": "u",
            "submitted_time": "None",
            "attempts": [],
        },
    ]
    path = written(tmp_path / "cluster_job_log", json.dumps(jobs, indent=1))
    machines = written(tmp_path / "machines.csv", "machineId,number of GPUs,single GPU mem", "m1,8,24GB")
    head, arrivals, skipped = imported("philly", path, machines)
    assert [(each.name, each.run, each.resources) for each in arrivals] == [
        ("application-1-0-0", 240, {GPU: 2}),
        ("application-1-1-1", 240, {GPU: 1}),
    ]
    assert (head.machines[0].resources, skipped) == ({GPU: 8}, {"has no submitted_time": 1})


def test_borg_2019(tmp_path: Path) -> None:
    """Events in any order, by number or by name; an instance that was evicted arrives again."""

    def event(time: int, kind: object, request: object = None) -> str:
        body = {"time": str(time), "type": kind, "collection_id": "5", "instance_index": 0, "priority": 103}
        return json.dumps(body | {"resource_request": request or {"cpus": 0.5, "memory": 0.1}})

    events = written(
        tmp_path / "instance_events.json.gz",
        *(event(9_000_000, "FINISH"), event(4_000_000, 4), event(1_000_000, 0), event(2_000_000, 3)),
        *(event(4_000_000, "SUBMIT"), event(5_000_000, "SCHEDULE"), event(2**63 - 1, 7)),
        json.dumps({"time": "0", "type": 0, "collection_id": "5"}),
    )
    machines = written(
        tmp_path / "machine_events.csv", "time,machine_id,type,capacity.cpus,capacity.memory", "0,7,1,1,0.5", "5,7,2,,"
    )
    head, arrivals, skipped = imported("borg-2019", events, machines)
    assert [(each.name, each.at, each.run, each.priority) for each in arrivals] == [
        ("5-0-0", 0, 2, 103),
        ("5-0-again-1-1", 3, 4, 103),
    ]
    assert (arrivals[0].cpu, arrivals[0].memory) == (5000, 10 * GIB)
    assert [(each.name, each.cpu) for each in head.machines] == [("machine-7", 10_000)]
    assert skipped == {"is about a collection, not an instance": 1}


# --- as a user --------------------------------------------------------------------------------------------------------


def test_an_imported_trace_runs(tmp_path: Path) -> None:
    """The command writes a scenario that simulates: pods arrive at their times and run as long as they ran."""
    rows = [
        f"p{number},1000,128,{number % 2},500,,LS,Running,{number * 10},{number * 10 + 25},{number * 10}"
        for number in range(20)
    ]
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    pods = written(tmp_path / "pods.csv", header, *rows)
    nodes = written(tmp_path / "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model", "n-0,4000,1024,2,P100")
    out = tmp_path / "small.py"
    result = CliRunner().invoke(
        main, ["trace", "import", "openb", str(nodes), str(pods), "-o", str(out), "--until", "100s"]
    )
    assert result.exit_code == 0, result.output
    assert result.output == f"Alibaba openb, 2023: 11 pods on 1 node, 2m5s.\nkubesched simulate {out}\n"
    report = run(load(out))
    assert (report.passed, report.bindings, report.virtual_seconds) == (True, 11, 185)
    assert max(each.bound_after for each in report.placements) < 0.1
    assert {each.phase for each in report.placements} == {"Succeeded"}


def test_the_message_says_how_long_it_is_played(tmp_path: Path) -> None:
    """In months of a trace pending pods are tried often: --speed shortens them, and the message says to what."""
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"
    rows = (f"p{number},1000,128,0,0,,{number * 86_400},{number * 86_400 + 60}" for number in range(40))
    pods = written(tmp_path / "pods.csv", header, *rows)
    nodes = written(tmp_path / "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model", "n-0,4000,1024,0,")
    command = ["trace", "import", "openb", str(nodes), str(pods), "-o", str(tmp_path / "months.py")]
    assert CliRunner().invoke(main, command).stderr.startswith("In 6 weeks, pods that stay pending are tried often")
    fast = CliRunner().invoke(main, [*command, "--speed", "3600"])
    assert "936h1m0s, played in 15m36s." in fast.stdout
    assert not fast.stderr


def test_priorities_become_classes(tmp_path: Path) -> None:
    """A pod's priority is that of a PriorityClass, as admission wants it."""
    lines = [json.dumps({"time": "1", "type": 0, "collection_id": "1", "instance_index": 0, "priority": 200})]
    out = tmp_path / "borg.py"
    source = Source([written(tmp_path / "instance_events.json", *lines)], OPTIONS)
    import_trace(KINDS["borg-2019"], source, out, Window(nodes=2))
    report = run(load(out))
    assert (report.passed, report.bindings) == (True, 1), report.error


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("openb", "name,cpu_milli,num_gpu\na,many,0\n", "trace:2: cpu_milli is 'many'; expected a number"),
        (
            "helios",
            "job_id,submit_time\n1,yesterday\n",
            "trace:2: submit_time is 'yesterday'; expected seconds or a date",
        ),
        ("philly", "[\n{]", "trace:2: not JSON"),
        ("philly", "[\n1]", "trace:2: expected an object, got 1"),
        ("borg-2019", '{"time": 1}\n{"time": 2', "trace:2: not JSON"),
        ("borg-2019", '{"a": ' * 100_000, "trace:1: not JSON"),
        ("borg-2019", '{"time": ' + "9" * 5000 + "}", "trace:1: not JSON"),
        ("borg-2019", '{"time": 1, "type": "' + "9" * 5000 + '"}', "there is no pod to import"),
        ("borg-2019", '{"time": 1, "type": "²"}', "there is no pod to import"),
        ("helios", "job_id,submit_time\n1,inf\n", "trace:2: submit_time is 'inf'; expected a finite number"),
        ("azure-packing-2020", "nonsense", "trace: not the SQLite file of this trace"),
        ("alibaba-2018", "a,b\n", "trace: has 2 columns"),
        (
            "borg-2019",
            '{"time": 1, "instance_index": 0, "type": 0, "resource_request": {"cpus": -1}}',
            "cpus is '-1'; expected 0 or more",
        ),
        ("helios", "job_id,submit_time\n1,\n", "there is no pod to import (1 skipped: has no submit_time)"),
    ],
)
def test_a_bad_trace_is_refused(kind: str, text: str, problem: str, tmp_path: Path) -> None:
    """The error names file, line, column and value; nothing is written."""
    path = tmp_path / "trace"
    path.write_text(text)
    out = tmp_path / "out.py"
    result = CliRunner().invoke(main, ["trace", "import", kind, str(path), "-o", str(out)])
    assert result.exit_code == 1
    assert problem in result.output
    assert not out.exists()


@pytest.mark.parametrize("kind", ["openb", "alibaba-2018", "philly", "borg-2019"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe\x00", "not text"),
        (gzip.compress(b" " * 100_000)[:-30], "the compressed file is cut off or damaged; download it again"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + b"?" * 50, "cut off or damaged"),
    ],
)
def test_a_damaged_file_is_refused(kind: str, content: bytes, problem: str, tmp_path: Path) -> None:
    """The error says that the file is no text, or that the compressed one is damaged."""
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=problem):
        import_trace(KINDS[kind], Source([path], OPTIONS), tmp_path / "out.py", Window())


def test_a_compressed_file_needs_no_ending(tmp_path: Path) -> None:
    """Files are recognised by what they begin with; Windows' line ends and a byte order mark do not matter."""
    path = tmp_path / "cluster_log"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfjob_id,submit_time,cpu_num\r\n1,5,2\r\n\r\n2,6,3\r\n"))
    _, arrivals, _ = imported("helios", path)
    assert [each.cpu for each in arrivals] == [2000, 3000]


def test_the_rest_of_a_file_is_not_read_for_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON that nothing can complete is refused at once: bytes further on that are no text are not read."""
    monkeypatch.setattr(reading, "CHUNK", 64)
    path = tmp_path / "instance_events.json"
    path.write_bytes(b'{"time": 1}\n{"time": oops}\n' + b'{"time": 3}\n' * 10_000 + b"\xff")
    with pytest.raises(TraceError, match=r"instance_events.json:2: not JSON"):
        import_trace(KINDS["borg-2019"], Source([path], OPTIONS), tmp_path / "out.py", Window())


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=9) | st.floats(allow_nan=False))), st.integers(1, 40)
)
def test_objects_are_read_in_pieces(items: list[dict[str, object]], chunk: int) -> None:
    """JSON lines and arrays are read whole, wherever a chunk ends; the line of each is known."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(reading, "CHUNK", chunk):
        path = Path(folder) / "objects"
        for text in ("\n".join(map(json.dumps, items)), json.dumps(items, indent=1, ensure_ascii=False)):
            path.write_text(text)
            found = list(reading.objects(path))
            assert [{key: row.value(key) for key in item} for row, item in zip(found, items, strict=True)] == items


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_file_that_is_missing_is_named(kind: str, tmp_path: Path) -> None:
    """The error says which file."""
    with pytest.raises(TraceError, match="missing"):
        import_trace(KINDS[kind], Source([tmp_path / "missing"], OPTIONS), tmp_path / "out.py", Window())


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """The error is about the output that was asked for, not about a temporary file."""
    out = tmp_path / "missing" / "out.py"
    result = CliRunner().invoke(main, ["trace", "import", "helios", str(tmp_path / "log.csv"), "-o", str(out)])
    assert result.exit_code == 2
    assert f"{out}: there is no folder {out.parent}" in " ".join(result.stderr.split())


# --- size -------------------------------------------------------------------------------------------------------------


def test_memory_stays_flat(tmp_path: Path) -> None:
    """Four times as many rows take no more memory: they are sorted on disk and written as they are read."""

    def peak(number: int) -> int:
        path = tmp_path / f"{number}.csv"
        with path.open("w") as file:
            file.writelines(
                f"j{i},t,1,Terminated,{(i * 7919) % number},{(i * 7919) % number + 1},100,1,0,\n" for i in range(number)
            )
        tracemalloc.start()
        import_trace(KINDS["alibaba-pai-2020"], Source([path], OPTIONS), tmp_path / "out.py", Window(), part=200)
        _, found = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found

    peak(100)  # imports
    assert peak(4_000) < 1.5 * peak(1_000)


def test_pods_that_ended_are_forgotten_while_it_is_played(tmp_path: Path) -> None:
    """An imported trace keeps few of the pods that have ended; timeline and measures have all of them."""
    path = written(tmp_path / "t.csv", *(f"j{i},t,1,Terminated,{i * 10},{i * 10 + 5},100,1,0," for i in range(60)))
    imported("alibaba-pai-2020", path)
    scenario = load(tmp_path / "out.py")
    assert scenario.cluster.ended_pods == 1000
    scenario.cluster = msgspec.structs.replace(scenario.cluster, ended_pods=5)
    clusters: list[SimulatedCluster] = []
    report = run(scenario, started=clusters.append)
    timeline = clusters[0].timeline
    assert len(report.placements) < 10
    assert max(len(each) for each in (timeline.attempts, timeline.created_at, timeline.bound_at)) < 10
    assert [each.what for each in report.timeline if each.kind == "Pod"].count("bound") == 60
    assert (report.measures["bound"], report.measures["attempts"]) == (60, 1)


def test_pods_of_every_size_leave_nothing_behind(tmp_path: Path) -> None:
    """In a trace every pod may request something else: what measures usage keeps nothing of those that are gone."""
    rows = (f"j{i},t,1,Terminated,{i * 10},{i * 10 + 5},{100 + i},1,0," for i in range(60))
    imported("alibaba-pai-2020", written(tmp_path / "t.csv", *rows))
    clusters: list[SimulatedCluster] = []
    report = run(load(tmp_path / "out.py"), started=clusters.append)
    assert report.measures["bound"] == 60
    held = vars(clusters[0].timeline.usage).items()
    assert not [name for name, kept in held if isinstance(kept, dict) and len(kept) > 1]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers())), st.integers(1, 5), st.integers(2, 4))
def test_sorting_on_disk_is_sorting(items: Iterable[tuple[int, int]], part: int, most_files: int) -> None:
    """The same order as in memory, equal items in the order in which they came."""
    items = list(items)
    found = sorted_on_disk(items, tuple[int, int], lambda each: each[0], part, most_files)
    assert list(found) == sorted(items, key=lambda each: each[0])


def test_sorting_opens_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred million rows are thousands of sorted parts, more than a process may have open."""
    made: list[IO[bytes]] = []
    most = 0

    def temporary() -> IO[bytes]:
        nonlocal most
        made.append(tempfile.TemporaryFile())  # noqa: SIM115
        most = max(most, sum(not each.closed for each in made))
        return made[-1]

    monkeypatch.setattr(sorting, "tempfile", mock.Mock(TemporaryFile=temporary))
    items = [(number * 37) % 101 for number in range(1000)]
    assert list(sorted_on_disk(items, int, lambda each: each, 2, 4)) == sorted(items)
    assert (len(made) > 500, most < 25) == (True, True)
    assert all(each.closed for each in made)
