"""The byte budget bounds what is held and never stops the image that is next in order."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait

from samjobs.segmentation.budget import ByteBudget


def test_the_next_in_order_is_let_in_whatever_its_size() -> None:
    budget = ByteBudget(100)
    budget.acquire(1, 90)
    budget.advance(0)
    budget.acquire(0, 5000)  # would wait for ever if it had to fit


def test_a_later_image_waits_until_there_is_room() -> None:
    budget = ByteBudget(100)
    budget.acquire(0, 80)
    entered = threading.Event()

    def later() -> None:
        budget.acquire(5, 50)
        entered.set()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(later)
        assert not entered.wait(0.05), "50 bytes were let in beside 80 of 100"
        budget.hold(0, 0)
        future.result(timeout=5)


def test_what_an_image_holds_already_is_not_asked_for_twice() -> None:
    budget = ByteBudget(100)
    budget.acquire(1, 60)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(budget.acquire, 1, 90)
        still_waiting = wait([asked], timeout=5).not_done
        budget.close()
    assert not still_waiting


def test_while_an_image_waits_for_more_what_it_holds_stays_counted() -> None:
    budget = ByteBudget(100)
    budget.acquire(1, 30)
    budget.acquire(2, 60)
    with ThreadPoolExecutor(2) as pool:
        more = pool.submit(budget.acquire, 2, 90)
        other = pool.submit(budget.acquire, 3, 20)
        waiting = wait([more, other], timeout=0.05).not_done
        budget.close()
    assert waiting == {more, other}


def test_closing_lets_every_waiter_in() -> None:
    budget = ByteBudget(10)
    budget.acquire(0, 10)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(budget.acquire, number, 10) for number in (3, 4)]
        budget.close()
        for future in waiting:
            future.result(timeout=5)


def test_what_is_held_never_exceeds_the_limit_but_for_the_next_in_order() -> None:
    budget, lock = ByteBudget(100), threading.Lock()
    held: dict[int, int] = {}
    peaks: list[int] = []

    def image(number: int) -> None:
        budget.acquire(number, 30)
        with lock:
            held[number] = 30
            peaks.append(sum(held.values()))
        with lock:
            del held[number]
        budget.hold(number, 0)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(image, range(200)))
    assert max(peaks) <= 100 + 30
