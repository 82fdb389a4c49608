"""Tables of the bandit study."""

import sqlite3

from rewardrate.reports.bandit_tables import (
    horizon_table,
    selected_table,
    tables,
    tally_table,
    verdict_table,
    versus_table,
)
from rewardrate.reports.bandits import Study


def test_the_tables_hold_every_cell(results):
    study = Study(results)
    end = study.curve(family="E1", contexts=4, arms=5, agent="npg")[-1]
    table = horizon_table(results)
    assert f"| 4 | 5 | E1 | {end['regret']:,.0f} ({end['regret_low']:,.0f} to {end['regret_high']:,.0f}) |" in table
    assert table.count("\n") == 1 + 4
    assert "learning rate" in selected_table(results)
    assert "totals" not in selected_table(results), "it was not tuned"


def test_a_comparison_is_paired_by_seed_and_counts_who_is_ahead(results):
    text = versus_table(results, "npg", "cucb")
    assert text.startswith("Of 4 cells: less regret with NPG-NIW in ")
    ours, theirs = (Study(results).final(family="E1", contexts=4, arms=5, agent=agent) for agent in ("npg", "cucb"))
    gap = sum(ours[seed] - theirs[seed] for seed in ours) / len(ours)
    assert f"| 4 | 5 | E1 | {gap:,.0f} |" in text


def test_the_papers_sentences_stand_beside_the_data(results):
    text = verdict_table(results)
    assert "NPG-NIW obtains similar or lower regret than C-UCB | Of 4 cells: " in text
    assert "median" in text
    assert "standard policy gradient" not in text, "this study has none"


def test_theory_without_a_tuned_partner_breaks_nothing(tmp_path, results):
    path = tmp_path / "apart.sqlite"
    path.write_bytes(results.read_bytes())
    connection = sqlite3.connect(path)
    for table in ("curves", "evaluation"):
        connection.execute(f"UPDATE OR REPLACE {table} SET agent = 'cucb theory' WHERE agent = 'totals'")
        connection.execute(f"DELETE FROM {table} WHERE agent = 'cucb' AND family = 'E4'")
        connection.execute(f"DELETE FROM {table} WHERE agent = 'cucb theory' AND family = 'E1'")
    connection.commit()
    connection.close()
    assert "no cell has both yet" in verdict_table(path)


def test_tables_of_a_study_that_is_not_finished_say_so(unfinished):
    assert "Of 2 cells" in versus_table(unfinished, "npg", "cucb").splitlines()[0]
    assert "Not finished" in versus_table(unfinished, "npg", "cucb")
    assert verdict_table(unfinished).startswith("Not finished")


def test_a_tally_adds_up_to_the_comparison_cell_by_cell(results):
    rows = [line for line in versus_table(results, "npg", "cucb").splitlines() if line.startswith("| 4")]
    ahead = sum(line.endswith("| NPG-NIW |") for line in rows)
    undecided = sum(line.endswith("| undecided |") for line in rows)
    (line,) = [line for line in tally_table(results, "npg", "cucb").splitlines() if line.startswith("| 4")]
    assert line.startswith(f"| 4 | 4 | {ahead} | {undecided} | {4 - ahead - undecided} | ")
    least, middle, most = map(float, line.split("|")[6].split(","))
    assert least <= middle <= most


def test_all_tables_make_one_document_with_the_comparisons_that_there_are(results):
    text = tables(results)
    assert "## NPG-NIW against C-UCB, tuned" in text
    assert "SPG-NIW" not in text, "this study has none"
    assert horizon_table(results) in text
    assert selected_table(results) in text
