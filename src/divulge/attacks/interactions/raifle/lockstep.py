"""Workers wait until each of them has a question, and all questions are answered in one call."""

from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

Q = TypeVar("Q")

A = TypeVar("A")

R = TypeVar("R")


def work_together(
    works: Sequence[Callable[[Callable[[Q], A]], R]],
    answer: Callable[[Mapping[int, Q]], Mapping[int, A]],
) -> list[R]:
    """Results of workers that ask questions, which are answered whenever all of them have asked.

    Args:
        works: what each worker does, given a function to ask.
        answer: answers to the questions of those that are still at work, by number.
    """
    workers = [_Worker(work) for work in works]
    try:
        questions = {
            n: q for n, worker in enumerate(workers) if (q := worker.resume(None)) is not None
        }
        while questions:
            answers = answer(questions)
            questions = {
                n: q for n in questions if (q := workers[n].resume(answers[n])) is not None
            }
    finally:
        for worker in workers:
            worker.end()
    return [worker.result for worker in workers]


class _EndOfWork(Exception):
    """Nobody waits for the result any more."""


class _Worker(Generic[Q, A, R]):
    """Work that stands still whenever it asks a question, until it is resumed with the answer.

    It has a thread of its own, as optimisers call functions and do not hand back control; no two
    threads ever run at once.
    """

    result: R

    def __init__(self, work: Callable[[Callable[[Q], A]], R]) -> None:
        self._work = work
        self._error: Exception | None = None
        self._answers: SimpleQueue[A | None] = SimpleQueue()
        self._questions: SimpleQueue[Q | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)

    def resume(self, answer: A | None) -> Q | None:
        """The next question; None if the result is there. The first answer is None."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._answers.put(answer)
        question = self._questions.get()
        if self._error is not None:
            raise self._error
        return question

    def end(self) -> None:
        """End the work where it stands, and wait for its thread.

        A thread that outlives the interpreter aborts the process, whose exit code is then lost.
        """
        if self._thread.is_alive():
            self._answers.put(None)
            self._thread.join()

    def _ask(self, question: Q) -> A:
        self._questions.put(question)
        answer = self._answers.get()
        if answer is None:
            raise _EndOfWork
        return answer

    def _run(self) -> None:
        try:
            self.result = self._work(self._ask)
        except _EndOfWork:
            pass
        except Exception as error:  # raised again where it is resumed
            self._error = error
        self._questions.put(None)
