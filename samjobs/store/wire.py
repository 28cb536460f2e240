"""Statements on their way to Postgres and back, several in one trip, with as little as possible around them.

This is libpq's pipeline by the driver's own binding of it (`psycopg.pq`): each statement is prepared once per
connection, all are written, and one wait brings all answers. The driver's cursors can do so too, with a conversion and
a look at the socket for each statement; on a processor that was idle that takes longer than the statements.

Values travel as text, and what types they are is the statement's to say. Through a pooler nothing is prepared.
"""

import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from psycopg import OperationalError
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

    from samjobs.store.together import Rows

Sent = tuple[str, Sequence[Any]]  # a statement with `$1` for the first of its values, and they


class Wire:
    """One connection's trips. Between two of them the driver may use it as ever; in one thread at a time."""

    def __init__(self, driver: "Connection[Any]") -> None:
        self._driver, self._pg = driver, driver.pgconn
        self._transformer = Transformer(driver)
        self._names: dict[str, bytes] = {}  # of prepared statements, by their text
        self._there: set[bytes] = set()  # those that the server has for sure, and not for tables as they once were

    def rolled_back(self) -> None:
        """After a rollback the driver makes the server forget whatever was prepared."""
        self._there.clear()

    def trip(self, statements: Sequence[Sent], *, last: bool = False) -> "list[Rows]":
        """The rows of each statement, in the same order; each sees what the ones before it did.

        Args:
            last: commit after them. A transaction is begun where the driver would begin one.

        Raises:
            psycopg.Error: of the first statement that failed, and none after it was run; or the connection is gone.
        """
        texts = [self._transformer.dump_sequence(values, [PyFormat.TEXT] * len(values)) for _, values in statements]
        asked: list[bool] = []  # for each command: whether its answer is what somebody asked for
        try:
            self._pg.enter_pipeline_mode()
            # A trip by itself needs neither: the server takes it for one transaction.
            outside = self._pg.transaction_status == TransactionStatus.IDLE
            if outside and not last and not self._driver.autocommit:
                asked += self._send_word(b"BEGIN")
            for (statement, _), values in zip(statements, texts, strict=True):
                asked += self._send(statement, values)
            if last and not outside:
                asked += self._send_word(b"COMMIT")
            self._pg.pipeline_sync()
            answers = self._answers()
            self._pg.exit_pipeline_mode()
        except BaseException:
            self._driver.close()  # or what is still to come would be taken for the answer to something else
            raise
        for answer in answers:
            if answer.status == ExecStatus.FATAL_ERROR:
                self._there.clear()
                raise error_from_result(answer, self._driver.info.encoding)
        return [self._rows(answer) for answer, wanted in zip(answers, asked, strict=True) if wanted]

    def _send_word(self, command: bytes) -> list[bool]:
        self._pg.send_query_params(command, None)
        return [False]

    def _send(self, statement: str, values: Sequence[Any]) -> list[bool]:
        if self._driver.prepare_threshold is None:
            self._pg.send_query_params(statement.encode(), values)
            return [True]
        name = self._names.setdefault(statement, b"samjobs_%d" % len(self._names))
        if name in self._there:
            self._pg.send_query_prepared(name, values)
            return [True]
        self._pg.send_close_prepared(name)  # in case it is there after all; if not, that is no error
        self._pg.send_prepare(name, statement.encode())
        self._pg.send_query_prepared(name, values)
        self._there.add(name)
        return [False, False, True]

    def _answers(self) -> "list[PGresult]":
        answers: list[PGresult] = []
        unsent = self._pg.flush()
        while True:
            while unsent or self._pg.is_busy():
                ready = select.poll()
                ready.register(self._pg.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
                ready.poll()
                self._pg.consume_input()
                unsent = unsent and self._pg.flush()
            answer = self._pg.get_result()
            if answer is None:  # after the answers to one statement
                if self._pg.status != ConnStatus.OK:
                    raise OperationalError(self._pg.get_error_message())
            elif answer.status == ExecStatus.PIPELINE_SYNC:
                return answers
            else:
                answers.append(answer)

    def _rows(self, answer: "PGresult") -> "Rows":
        self._transformer.set_pgresult(answer)
        return self._transformer.load_rows(0, answer.ntuples, tuple)
