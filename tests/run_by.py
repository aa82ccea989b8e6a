"""Which test runs which command of the documents: for every page, tests and the beginnings of what they run.

The fixture `script` gives a test what this table says, and fails if the test leaves some of it.
"""

from __future__ import annotations

PACKAGES = "tests/packages/test_installing.py::"
PAGES = "tests/kubectl/test_pages.py::"
EXAMPLES = "tests/kubectl/test_examples.py::"
DAEMONS = "tests/kubectl/test_typed_daemons.py::"
GUIDES = "tests/test_typed_guides.py::"
UP = "tests/kubectl/test_guide.py::"

FIRST_CLUSTER = f"{PAGES}test_a_first_cluster"
ASKING = f"{PAGES}test_asking_the_scheduler"
QUESTIONS = f"{PAGES}test_questions_about_a_running_cluster"
TYPED = f"{GUIDES}test_a_page_can_be_typed"
CLUSTER = ("export KUBECONFIG=", "kubesched up", "kubectl")

ANYWHERE = {
    "tests/test_make.py::test_targets": ("make", "KUBESCHED_E2E_BIN="),
    "tests/test_make.py::test_the_path": ("export PATH=",),
}
"""On every page. `make` is what starts all these tests: the demo is run, of other targets every step is looked at."""

RUN_BY: dict[str, dict[str, tuple[str, ...]]] = {
    "README.md": {f"{PACKAGES}test_installing": ("pip",), FIRST_CLUSTER: CLUSTER},
    "docs/guides/contrib.md": {TYPED: ("kubesched",), f"{PAGES}test_the_custom_resources_of_contrib": ("kubectl",)},
    "docs/guides/deploy.md": {
        f"{DAEMONS}test_from_your_own_machine": ("cat > second.yaml", "kubesched run"),
        f"{DAEMONS}test_a_second_scheduler_with_kustomize": (
            "cd deploy/",
            "cat >>",
            "kubectl apply",
        ),
        "tests/deploy/test_chart.py::test_a_release_is_installed_upgraded_and_rolled_back": ("helm",),
        "tests/deploy/test_image.py::test_the_guide_builds_it": ("docker build",),
        ASKING: ("kubectl create", "TOKEN=", "curl"),
    },
    "docs/guides/devices.md": {f"{UP}test_the_guide_to_devices_can_be_typed": ("",)},
    "docs/guides/history.md": {
        f"{DAEMONS}test_the_history": (
            *("kubesched run", "jq", "kubectl create clusterrole kubesched"),
            "kubectl create clusterrolebinding kubesched",
        ),
        ASKING: ("kubectl create", "TOKEN=", "curl"),
    },
    "docs/guides/learn.md": {TYPED: ("",)},
    "docs/guides/pending.md": {QUESTIONS: ("",)},
    "docs/guides/plugins.md": {
        TYPED: ("kubesched new-plugin", "kubesched plugins"),
        f"{DAEMONS}test_plugins": ("kubesched run",),
    },
    "docs/guides/research.md": {TYPED: ("",)},
    "docs/guides/scenarios.md": {TYPED: ("",)},
    "docs/guides/snapshots.md": {QUESTIONS: ("",)},
    "docs/guides/ui.md": {f"{DAEMONS}test_web_pages": ("",)},
    "docs/guides/up.md": {f"{UP}test_the_guide_can_be_typed": ("",)},
    "docs/guides/whatif.md": {QUESTIONS: ("",)},
    "docs/performance.md": {
        f"{GUIDES}test_benchmarks": (
            "kubesched bench --scheduler-perf bench/workloads --list",
            "kubesched bench --scheduler-perf DIR",
        ),
        "tests/e2e/test_bench_peer.py::test_the_page_can_be_typed": (
            "kubesched bench --scheduler-perf bench/workloads --peer",
        ),
    },
    "docs/reference/commands.md": {
        f"{PAGES}test_the_help_of_up": ("export KUBECONFIG=", "kubectl", "kubesched up --plugin"),
        f"{DAEMONS}test_from_your_own_machine": ("kubesched run",),
        f"{DAEMONS}test_web_pages": ("kubesched ui",),
        ASKING: ("curl",),
        QUESTIONS: (
            *("kubesched explain", "kubesched snapshot", "kubesched record", "kubesched simulate cluster.json.gz"),
            *("kubesched simulate monday.jsonl.gz", "kubesched up --from", "kubesched compare", "kubesched capacity"),
            "kubesched whatif",
        ),
        TYPED: ("kubesched simulate", "kubesched trace", "kubesched sweep", "kubesched tune", "kubesched learn"),
    },
    "docs/reference/conformance.md": {TYPED: ("",)},
    "docs/reliability.md": {TYPED: ("",)},
    "docs/tutorial.md": {
        "tests/site/test_site.py::test_the_tutorial_can_be_typed": ("cat >", "kubesched explain", "kubesched simulate"),
        FIRST_CLUSTER: CLUSTER,
    },
    "examples/coscheduling/README.md": {f"{EXAMPLES}test_coscheduling": ("",)},
    "examples/cost-aware/README.md": {f"{EXAMPLES}test_cost_aware": ("",)},
    "examples/example-plugin/README.md": {f"{EXAMPLES}test_example_plugin": ("",)},
    "examples/gpu-sharing/README.md": {
        f"{PACKAGES}test_extras": ("pip",),
        f"{EXAMPLES}test_the_experiment_of_gpu_sharing": ("python",),
        f"{EXAMPLES}test_gpu_sharing": ("kubesched up", "kubectl"),
    },
    "examples/gpus/README.md": {f"{EXAMPLES}test_gpus": ("",)},
    "examples/gym/README.md": {f"{PACKAGES}test_extras": ("pip",), f"{EXAMPLES}test_gym": ("python", "kubesched up")},
    "examples/index-scheduling/README.md": {f"{EXAMPLES}test_index_scheduling": ("",)},
    "examples/node-number/README.md": {f"{EXAMPLES}test_node_number": ("",)},
    "examples/qos-sort/README.md": {f"{EXAMPLES}test_qos_sort": ("",)},
    "examples/sample2/README.md": {f"{EXAMPLES}test_sample2": ("",)},
}

NOT_RUN = {
    "kubectl -n kube-system port-forward": "needs a kubelet; the ports that it forwards are asked directly",
}
"""What no test can run, and why."""


def runner(page: str, command: str) -> str:
    """The test that runs a command: that with the longest beginning. An empty string if there is none."""
    known = [
        (len(beginning), test)
        for tests in (RUN_BY.get(page, {}), ANYWHERE)
        for test, beginnings in tests.items()
        for beginning in beginnings
        if command.startswith(beginning)
    ]
    return max(known, default=(0, ""))[1]
