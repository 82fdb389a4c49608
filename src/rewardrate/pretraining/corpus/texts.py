"""Scripts for running text: a vectorizer and a linear model, a naive Bayes model or a forest."""

from __future__ import annotations

from rewardrate.pretraining.corpus import tables
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.source import SourceWriter, listed


def text_script(brief: Brief, choices: Choices) -> SourceWriter:
    """Vectorize one or several text columns, fit, predict, write."""
    source, c, s = SourceWriter(), choices, choices.style
    tables.read(source, brief, c, listed((*c.texts, *c.categories[:1])))
    tables.target(source, brief, c)
    steps = [_vectorizer(source, c), *_components(source, c)]
    family = c.model.family
    source.sklearn(family.module, family.name)
    left, right = joined(brief, c, s.train), joined(brief, c, s.test)
    if c.vectors.pipeline:
        pipeline = source.sklearn("pipeline", "make_pipeline")
        source.add(f"{s.model} = {pipeline}({', '.join([*steps, c.model.text])})")
        tables.fit(source, c, left)
        tables.predict(source, brief, c, right)
    else:
        encoder = steps[0]
        if len(steps) > 1:
            encoder = f"{source.sklearn('pipeline', 'make_pipeline')}({', '.join(steps)})"
        source.add(f"vec = {encoder}")
        source.add(f"{s.x} = vec.fit_transform({left})", f"{s.z} = vec.transform({right})")
        source.add(f"{s.model} = {c.model.text}")
        tables.fit(source, c, s.x)
        tables.predict(source, brief, c, s.z)
    tables.write(source, brief, c, f"{s.model}.classes_")
    return source


def joined(brief: Brief, c: Choices, frame: str) -> str:
    """The text of a row: one column, or several with a space between. Missing ones count as empty."""
    names = (*c.texts, *c.categories[:1])
    filled = any(name in brief.gaps for name in names) or (c.narrow and not brief.gaps)
    parts = [f'{frame}["{name}"]' + ('.fillna("")' if filled else "") for name in names]
    return ' + " " + '.join(parts)


def _vectorizer(source: SourceWriter, c: Choices) -> str:
    source.sklearn("feature_extraction.text", c.vectors.kind)
    return c.vectors.text


def _components(source: SourceWriter, c: Choices) -> list[str]:
    if not c.vectors.components:
        return []
    name = source.sklearn("decomposition", "TruncatedSVD")
    return [f"{name}({c.vectors.components}, random_state=0)"]
