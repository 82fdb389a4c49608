"""Shared by all tests: hypothesis draws the same examples every time, so a red run can be repeated; which are slow."""

import contextlib
import functools
import importlib
import itertools
import os
import shutil
import sys

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores: threads of torch and BLAS that wait for each other's turn make a test take three times as
    # long. It must stand before anything imports NumPy or torch; processes that tests start inherit it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("house", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("house")

# What `make quick` leaves out, by the beginning of a test's name: more than about a second of a core, or Ray, verl,
# attacks on the sandbox, training. Single tests say so themselves (pytest.mark.slow).
SLOW = (
    "bandits/agents/test_cucb.py",
    "bandits/agents/test_npg.py::test_a_fixed_seed_gives_these_numbers",
    "bandits/agents/test_npg.py::test_it_learns_and_its_price",
    "bandits/test_batch_rates.py",
    "bandits/test_cluster.py",
    "bandits/test_cuda.py",
    "bandits/test_experiment.py",
    "bandits/test_gradient_",
    "bandits/test_jobs.py::test_processes_change_nothing",
    "bandits/test_policy_gradient.py",
    "bandits/test_sampled",
    "bandits/test_studies.py::test_a_study_killed",
    "cli/test_bandit.py",
    "cli/test_compare.py",
    "cli/test_pretrain.py",
    "cli/test_report.py",
    "cli/test_sandbox.py",
    "cli/test_speedrun.py",
    "cli/test_tasks.py",
    "cli/test_theory.py::test_a_figure_that_cannot_be_written",
    "cli/test_theory.py::test_a_violation",
    "cli/test_theory.py::test_the_figure_opens",
    "cli/test_theory.py::test_the_resolved_config",
    "cli/test_train.py",
    "cli/test_watch.py",
    "environments/mle/test_environment.py",
    "environments/mle/test_extraction_hostile.py::test_replies_that_python_would_take_long_over",
    "environments/mle/test_hostile_results.py",
    "environments/mle/test_hostile_scripts.py",
    "environments/mle/test_leaks.py",
    "environments/mle/test_mlebench.py",
    "environments/mle/test_preparation.py",
    "environments/mle/test_programs.py::test_the_costliest_program",
    "environments/mle/test_selection.py",
    "environments/mle/test_shortening.py::test_every_budget",
    "environments/mle/test_shortening.py::test_files_of_the_standard_library",
    "environments/mle/test_task.py",
    "environments/mle/test_validation.py",
    "environments/speedrun/test_catalogue.py",
    "environments/speedrun/test_cheating.py",
    "environments/speedrun/test_copies.py",
    "environments/speedrun/test_counting.py",
    "environments/speedrun/test_data.py",
    "environments/speedrun/test_dishonest_models.py",
    "environments/speedrun/test_environment.py",
    "environments/speedrun/test_judge.py",
    "environments/speedrun/test_recompute.py",
    "environments/speedrun/test_reevaluation.py",
    "environments/speedrun/test_referee.py",
    "environments/speedrun/test_tampering.py",
    "policies/algorithms/test_against_trl.py",
    "policies/algorithms/test_against_verl.py",
    "policies/test_learner.py::test_the_gradient_does_not_depend",
    "policies/test_sampling.py::test_a_reply_does_not_depend",
    "policies/test_vllm.py",
    "pretraining/",
    "rates/test_predictive.py::test_single_batch",
    "reports/test_bandit_tables.py",
    "reports/test_bandits.py",
    "reports/test_comparison.py",
    "reports/test_comparison_page.py",
    "reports/test_survey.py",
    "reports/test_crossing_curves.py::test_figures_and_table",
    "reports/test_files.py",
    "reports/test_hostile_records.py",
    "reports/test_page.py::test_a_task_of_any_name",
    "reports/test_page.py::test_a_truncated_log",
    "reports/test_page.py::test_several_folders",
    "reports/test_page.py::test_the_same_runs",
    "reports/test_page.py::test_after_one_step",
    "reports/test_page.py::test_a_run_that_still_goes_on",
    "reports/test_page.py::test_a_run_in_which_nothing_is_valid",
    "reports/test_page.py::test_several_tasks_give",
    "reports/test_page.py::test_means_at_T",
    "reports/test_page.py::test_a_folder_whose_config",
    "reports/test_page.py::test_settings_that_differ",
    "reports/test_server.py::test_a_browser_that_turns_away",
    "reports/test_server.py::test_an_answer_that_is_taken_by_drops",
    "reports/test_server.py::test_the_folder_is_not_touched",
    "reports/test_soundness.py::test_a_spoilt_file",
    "reports/test_tasks.py::test_names_lie_on_nothing",
    "reports/test_tasks.py::test_the_names_of_a_tasks_scripts",
    "runlog/test_killed.py",
    "runlog/test_rewind.py::test_killed_at_any_moment",
    "runlog/test_versions.py::test_a_process_killed",
    "sandbox/",
    "scale/test_connection.py",
    "scale/test_dispatch.py",
    "scale/test_ray_executor.py",
    "scale/test_trl_reward.py",
    "scale/test_verl_adapter.py",
    "scale/test_verl_critic.py",
    "test_docs.py::test_examples_run",
    "test_first_hour.py",
    "test_site.py",
    "timed/test_sb3.py",
    "training/test_forecast.py::test_a_pilot_says",
    "training/test_language_toys.py",
    "training/test_loggers.py",
    "training/test_loop.py::test_rpg_takes_the_quick_arm",
    "environments/mle/test_references.py::test_the_stored_baselines",
    "training/test_race_runs.py",
    "training/test_session.py",
    "training/test_simulation.py::test_learning_raises",
    "training/test_sitting.py",
)
# What takes minutes, most of it waiting: every worker begins with its share, or one is still at it when the others have
# ended. What takes turns (`in_turn`) stands together, so that one worker has it and no other waits.
LONG = (
    ("sandbox/test_attacks.py", "sandbox/test_pool.py"),
    ("scale/", "bandits/test_cluster.py"),
    ("environments/speedrun/test_cheating.py", "test_first_hour.py", "training/test_race_runs.py"),
)
SLOW_FIXTURES = {"chromium", "cluster", "in_turn"}


def name_of(item):
    return item.nodeid.removeprefix("tests/")


def dealt(items, workers):
    """The same tests, so that each worker's block of neighbours (`--dist worksteal`) begins with its share of LONG."""
    long = [[item for item in items if name_of(item).startswith(group)] for group in LONG]
    chosen = {id(item) for group in long for item in group}
    rest, order = iter([item for item in items if id(item) not in chosen]), []
    for worker in range(workers):
        block = (len(items) - len(order)) // (workers - worker)
        mine = [item for group in long[worker::workers] for item in group]
        order += [*mine, *itertools.islice(rest, max(0, block - len(mine)))]
    return [*order, *rest]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is slow, before `-m` chooses; then deal what is left to the workers."""
    for item in items:
        if name_of(item).startswith(SLOW) or SLOW_FIXTURES & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)
    yield
    items[:] = dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def untraced(function):
    """The same function without coverage's tracer, which doubles the time of all Python, ours or not."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(tracer)

    return call


def pytest_collection_finish(session):
    """While coverage is measured: the two places where tests spend minutes in Python that is not ours."""
    if not session.config.getoption("cov_source", None) or session.config.option.collectonly:
        return
    for module, owner, names in (
        ("matplotlib.figure", "Figure", ("draw", "savefig")),
        ("numba.core.dispatcher", "Dispatcher", ("compile",)),
    ):
        with contextlib.suppress(ImportError):
            place = getattr(importlib.import_module(module), owner)
            for name in names:
                setattr(place, name, untraced(getattr(place, name)))


@pytest.fixture
def chat():
    """Address of a chat model on loopback."""
    import chat_server

    with chat_server.serving() as url:
        yield url


@pytest.fixture(scope="session")
def chromium():
    """Chromium without a window; tests that need it are skipped where it is not installed."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed: make test installs it as root on Debian")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        yield browser
        browser.close()
