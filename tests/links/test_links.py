"""What Links accepts and says, and which kind is used."""

import math

import pytest

from course_lib import links, namespaces, ranks
from course_lib.links import Available, Links, LinksUnavailable, RankLink


@pytest.mark.parametrize(("rate", "bandwidth"), [
    ("400mbit", 50e6), ("1gbit", 125e6), ("1 Gbit/s", 125e6), ("2.5gbit", 312.5e6), ("800kbit", 1e5),
    ("1000000bit", 125e3), (50e6, 50e6), (20_000, 20_000.0)])  # fmt: skip
def test_rates(rate, bandwidth):
    assert Links(rate).bandwidth == bandwidth


@pytest.mark.parametrize("rate", ["400", "400mb", "50MB/s", "mbit", "", "-1mbit", -5, 0, math.nan, math.inf,
                                  None, True, "1kbit", "900gbit", [1], 10**400, "٤00mbit"])  # fmt: skip
def test_rates_that_make_no_sense(rate):
    with pytest.raises(ValueError, match="rate=.*expected bits per second"):
        Links(rate)
    with pytest.raises(ValueError, match="rate=.*expected bits per second"):
        Links(rank_rates={1: rate})


@pytest.mark.parametrize(("latency", "seconds"), [
    ("1ms", 0.001), ("200us", 0.0002), ("0.5s", 0.5), (0, 0), (0.01, 0.01)])  # fmt: skip
def test_latencies(latency, seconds):
    assert Links(latency=latency).of_ranks(1)[0].latency == pytest.approx(seconds)


@pytest.mark.parametrize("latency", ["1", "ms", -1, math.nan, "20s", None, True, 10**400])
def test_latencies_that_make_no_sense(latency):
    with pytest.raises(ValueError, match="latency=.*expected a time"):
        Links(latency=latency)


def test_links_of_ranks():
    fast, slow = RankLink(1e7), RankLink(1e6)
    assert Links("80mbit", rank_rates={1: "8mbit"}).of_ranks(3) == [fast, slow, fast]
    with pytest.raises(ValueError, match="there is no rank 2 of 2"):
        Links(rank_rates={2: "1mbit"}).of_ranks(2)
    with pytest.raises(ValueError, match="at most 16 ranks"):
        Links().of_ranks(17)
    for strange in ({-1: "1mbit"}, {True: "1mbit"}, {"a": "1mbit"}, ["1mbit"], "1mbit"):
        with pytest.raises(ValueError, match="rank_rates="):
            Links(rank_rates=strange)
    with pytest.raises(ValueError, match="kind='fast'"):
        Links(kind="fast")
    with pytest.raises(ValueError, match="expected course_lib.links.Links"):
        ranks.run(int, 1, links="400mbit")


REAL, NO_NETEM = Available(True, True), Available(True, False, "The kernel has no netem.")
REFUSED = Available(False, False, "AppArmor's rule forbids them.")


@pytest.mark.parametrize(("found", "asked", "is_real"), [
    (REAL, Links(), True), (REAL, Links(latency=0.1), True), (REAL, Links(kind="paced"), False),
    (NO_NETEM, Links(), True), (NO_NETEM, Links(latency="1ms"), False), (NO_NETEM, Links(kind="real"), True),
    (REFUSED, Links(), False)])  # fmt: skip
def test_kind(monkeypatch, found, asked, is_real):
    monkeypatch.setattr(links, "available", lambda: found)
    assert asked.is_real is is_real
    assert asked.label.endswith("paced in software") is not is_real


@pytest.mark.parametrize(("found", "asked"), [
    (REFUSED, Links(kind="real")), (NO_NETEM, Links(kind="real", latency="1ms"))])  # fmt: skip
def test_real_links_that_can_not_be_had(monkeypatch, found, asked):
    monkeypatch.setattr(links, "available", lambda: found)
    with pytest.raises(LinksUnavailable, match=found.reason):
        ranks.run(int, 1, links=asked)


def test_labels(monkeypatch):
    monkeypatch.setattr(links, "available", lambda: REAL)
    assert Links().label == "400 Mbit/s links"
    assert Links("2.5gbit", latency="2ms").label == "2.5 Gbit/s links with 2 ms latency"
    assert Links(1e5, {1: "100kbit"}).label == "800 kbit/s links (100 kbit/s for rank 1)"


def test_available_says_which_and_why(monkeypatch):
    def asked(refusal, netem):
        links.available.cache_clear()
        monkeypatch.setattr(namespaces, "refusal", lambda: refusal)
        monkeypatch.setattr(namespaces, "has_netem", lambda: netem)
        return str(links.available())

    try:
        assert asked("A rule.", False) == "Links are paced in software. Real ones: A rule."
        assert "Real links" in asked(None, False) and "no netem" in asked(None, False)
        assert asked(None, True) == "Real links, in network namespaces, with latency."
    finally:
        links.available.cache_clear()


def test_pacing_is_for_ranks_on_the_cpu():
    with pytest.raises(ValueError, match="on the CPU"):
        ranks.run(int, 1, device="cuda", links=Links(kind="paced"))
