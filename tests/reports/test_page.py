import re

import toy_agent
from rewardrate.reports import page

PROBE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def train(place, arm, environment=None):
    loop = toy_agent.loop(place, arm=arm, steps=3, batch=4, environment=environment)
    loop.run()
    loop.log.close()


def test_the_page_stands_alone_and_shows_both_arms(tmp_path):
    for arm in ("rpg", "vanilla"):
        train(tmp_path / arm, arm)
    path = page.write(tmp_path)
    text = path.read_text()
    assert text.count("<svg") == 4
    assert "Both arms at the same budget" in text
    assert "rpg: best script" in text
    assert "vanilla: best script" in text
    outside = re.findall(r"""(?:src|href)=["']?(https?:[^"' >]+)""", text)
    assert outside == []
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".part")] == []


def test_scripts_and_messages_are_shown_and_never_executed(tmp_path):
    class Hostile(toy_agent.TwoArms):
        def execute(self, replies, on_done=None):
            from dataclasses import replace

            outcomes = [replace(o, code=o.code + PROBE, message=PROBE) for o in super().execute(replies)]
            for place, outcome in enumerate(outcomes):
                on_done(place, outcome)
            return outcomes

    train(tmp_path / "run", "rpg", Hostile())
    text = page.write(tmp_path / "run").read_text()
    assert "<script>" not in text
    assert "onerror=alert(2)&gt;" in text
    assert "default-src 'none'" in text
