"""Predictions before an experiment, and questions after it.

Their texts stand in `texts/LANGUAGE/lesson_NN.toml`, away from the code, so that a second language is a second file.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from helpers.errors import LabError
from helpers.lab.frame.lesson import current_lesson
from helpers.views import Table

LANGUAGE = "en"
FOLDER = Path(__file__).parent / "texts"

TEXTS = {
    "unknown": 'Lesson {lesson} has no prediction called "{name}". It has: {known}.',
    "predict_first": 'Nothing was asked under the name "{name}" yet. Run the cell with lab.predict("{name}") first.',
    "choices": "Your choices:",
    "no_answer": "(no prediction)",
    "you": "You predicted: {answer}",
    "rows": "Observed:      {actual}",
    "verdict_right": "As you predicted.",
    "verdict_wrong": "Not as you predicted. The text below says why.",
    "right": "Right.",
    "wrong": "Not so.",
}
COLUMNS = ["question", "you predicted", "observed"]


class Prediction:
    """A choice that the learner makes before an experiment. `answer` is the key of the choice, or None."""

    def __init__(self, name: str, ask: str, choices: dict[str, str]) -> None:
        self.name = name
        self.ask = ask
        self.choices = choices
        self.actual: str | None = None
        self._card = Card(ask, list(choices.values()))

    @property
    def answer(self) -> str | None:
        index = self._card.picked
        return None if index is None else list(self.choices)[index]

    def compare(self, actual: object) -> None:
        """Show the prediction beside what the rows say. `actual` is the value of the column that decides."""
        self.actual = str(actual)
        print(TEXTS["you"].format(answer=self._words(self.answer)))
        print(TEXTS["rows"].format(actual=self._words(self.actual)))
        if self.answer is not None:
            print(TEXTS["verdict_right" if self.answer == self.actual else "verdict_wrong"])

    def row(self) -> list[str]:
        return [self.ask, self._words(self.answer), self._words(self.actual)]

    def _words(self, key: str | None) -> str:
        return TEXTS["no_answer"] if key is None else self.choices.get(key, key)


class Card:
    """A question with choices to click on. Where widgets are not shown (GitHub, an export), it is plain text."""

    def __init__(self, ask: str, choices: list[str], feedback: list[str] | None = None) -> None:
        self._plain = "\n".join(
            [ask, TEXTS["choices"], *(f"  {chr(97 + i)}) {text}" for i, text in enumerate(choices))]
        )
        self._radio = widgets.RadioButtons(
            options=[(text, i) for i, text in enumerate(choices)], value=None, layout={"width": "auto"}
        )
        self._feedback = feedback
        self._answer = widgets.HTML()
        self._box = widgets.VBox([widgets.HTMLMath(f"<b>{ask}</b>"), self._radio, self._answer])
        if feedback is not None:
            self._radio.observe(self._tell, names="value")

    @property
    def picked(self) -> int | None:
        index: int | None = self._radio.value
        return index

    def _tell(self, change: dict[str, Any]) -> None:
        assert self._feedback is not None
        self._answer.value = self._feedback[change["new"]]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self._box._repr_mimebundle_()
        return {**bundle, "text/plain": self._plain}


_predictions: dict[str, Prediction] = {}


def predict(name: str) -> None:
    """Ask for a prediction. Running the cell again asks anew.

    Raises LabError, which lists the names, where this lesson has no prediction called `name`.
    """
    lesson = current_lesson()
    known = lesson_texts(lesson)["predict"]
    if name not in known:
        raise LabError(TEXTS["unknown"].format(lesson=lesson, name=name, known=", ".join(known)))
    asked = known[name]
    _predictions[name] = Prediction(name, asked["ask"], asked["choices"])
    display(_predictions[name]._card)


def compare(name: str, actual: object) -> None:
    """Show what was predicted under `name` beside `actual`, the value that the rows gave.

    No prediction is fine: then only the rows speak.
    """
    if name not in _predictions:
        raise LabError(TEXTS["predict_first"].format(name=name))
    _predictions[name].compare(actual)


def predictions() -> Table:
    """All predictions of this notebook so far, each with what the rows said."""
    return Table(COLUMNS, [prediction.row() for prediction in _predictions.values()])


def questions(*names: str) -> None:
    """Ask the questions of this lesson: all, or those called `names`. Each choice gets its own feedback."""
    known = lesson_texts(current_lesson())["question"]
    for name in names or known:
        asked = known[name]
        choices = asked["choices"]
        feedback = [f"<b>{TEXTS['right' if c.get('right') else 'wrong']}</b> {c['feedback']}" for c in choices]
        display(Card(asked["ask"], [c["text"] for c in choices], feedback))


@cache
def lesson_texts(lesson: int) -> dict[str, Any]:
    """The texts of one lesson: `predict` and `question`, each a mapping from names."""
    return tomllib.loads((FOLDER / LANGUAGE / f"lesson_{lesson:02}.toml").read_text(encoding="utf-8"))
